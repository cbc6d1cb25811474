//! What every change of the flash passes through: nothing is written after an error, and a session
//! begins with its first change.

use flashkit_nand::Nand;

use crate::error::Error;
use crate::state::Jftl;

impl<N: Nand> Jftl<'_, N> {
    /// Runs an operation that changes the flash; after an error there is no other.
    pub(crate) fn changing<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error<N::Error>>,
    ) -> Result<T, Error<N::Error>> {
        if let Some(damage) = self.damage {
            return Err(damage.error());
        }
        if self.latched {
            return Err(Error::Latched);
        }
        let result = if self.untouched {
            self.begin_session().and_then(|()| work(self))
        } else {
            work(self)
        };
        // What is in RAM may be ahead of the log.
        self.latched = matches!(
            result,
            Err(Error::Flash(_) | Error::Damaged { .. } | Error::Full)
        );
        result
    }

    /// Says in the log, before anything else is changed, that the orderly end before is past. The
    /// newest anchor may be that of a session that was cut before it came so far, and not last.
    fn begin_session(&mut self) -> Result<(), Error<N::Error>> {
        self.anchor()?;
        self.commit()?;
        self.untouched = false;
        Ok(())
    }
}
