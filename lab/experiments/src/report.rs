//! What an experiment found: tables and figures, as data.

use crate::Only;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What was assumed or fitted, one sentence each.
    pub notes: Vec<String>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Groups of bars.
    pub bars: Vec<Bars>,
}

/// A table; each row has a cell for each column.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it shows, the paper's number first where there is one.
    pub title: String,
    /// Headings.
    pub columns: Vec<&'static str>,
    /// How many of the first columns are text.
    pub keys: usize,
    /// Rows.
    pub rows: Vec<Vec<Cell>>,
    /// What is to be said of it.
    pub notes: Vec<String>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Cell {
    /// Not known, or there is none.
    None,
    /// Words.
    Text(String),
    /// A count.
    Count(u64),
    /// A measure, and how many digits of it mean something.
    Measure(f64, usize),
}

impl Cell {
    /// Its number, if it has one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Count(n) => Some(*n as f64),
            Cell::Measure(x, _) => Some(*x),
            Cell::None | Cell::Text(_) => None,
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::None => Value::Null,
            Cell::Text(text) => json!(text),
            Cell::Count(n) => json!(n),
            Cell::Measure(x, digits) => rounded(*x, *digits),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(n: u64) -> Cell {
        Cell::Count(n)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or(Cell::None, Into::into)
    }
}

/// Curves or histograms over one axis; each series has a value for each x, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows, the paper's number first where there is one.
    pub title: String,
    /// What x is.
    pub x: &'static str,
    /// What the values are.
    pub y: &'static str,
    /// The values of x.
    pub at: Vec<f64>,
    /// Name and values.
    pub series: Vec<(String, Vec<Option<f64>>)>,
    /// What the paper says of its own figure, if anything can be compared.
    pub papers: &'static str,
}

/// Groups of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// What the values are.
    pub y: &'static str,
    /// Names of the bars of each group.
    pub series: Vec<String>,
    /// Name of a group, and a value for each bar; `None` where there is none.
    pub groups: Vec<(String, Vec<Option<f64>>)>,
    /// What is to be said of it.
    pub note: &'static str,
}

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).collect();
    groups.reverse();
    String::from_utf8_lossy(&groups.join(&b","[..])).into_owned()
}

fn rounded(x: f64, digits: usize) -> Value {
    let scale = 10f64.powi(digits.min(9) as i32);
    json!((x * scale).round() / scale)
}

impl Report {
    /// Without the tables and figures that are not asked for.
    pub fn keep(mut self, only: Only<'_>) -> Report {
        self.tables.retain(|table| only.takes(&table.title));
        self.figures.retain(|figure| only.takes(&figure.title));
        self.bars.retain(|bars| only.takes(&bars.title));
        self
    }

    /// As an object; rows are objects too, with the columns for keys.
    pub fn json(&self, name: &str, source: &str) -> Value {
        json!({
            "experiment": name,
            "source": source,
            "notes": self.notes,
            "tables": self.tables.iter().map(Table::json).collect::<Vec<_>>(),
            "figures": self.figures.iter().map(Figure::json).collect::<Vec<_>>(),
            "bars": self.bars.iter().map(Bars::json).collect::<Vec<_>>(),
        })
    }
}

impl Table {
    fn json(&self) -> Value {
        let row = |row: &Vec<Cell>| {
            let cells = self.columns.iter().zip(row);
            Value::Object(
                cells
                    .map(|(&column, cell)| (column.to_owned(), cell.json()))
                    .collect::<Map<_, _>>(),
            )
        };
        json!({
            "title": self.title,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl Figure {
    /// The series that have anything, with their places among all: what is listed in the same order
    /// has the same colour in all figures.
    pub fn shown(&self) -> impl Iterator<Item = (usize, &str, &[Option<f64>])> + Clone {
        let all = self.series.iter().enumerate();
        all.map(|(place, (name, values))| (place, &name[..], &values[..]))
            .filter(|(_, _, values)| values.iter().any(Option::is_some))
    }

    fn json(&self) -> Value {
        let series = self.shown().map(|(_, name, values)| {
            let points = self.at.iter().zip(values);
            let points: Vec<_> = points
                .filter_map(|(&x, &y)| Some([rounded(x, 3), rounded(y?, 3)]))
                .collect();
            json!({ "name": name, "points": points })
        });
        json!({
            "title": self.title,
            "x": self.x,
            "y": self.y,
            "series": series.collect::<Vec<_>>(),
            "paper": self.papers,
        })
    }
}

impl Bars {
    /// The series that have a bar, with their places among all.
    pub fn shown(&self) -> impl Iterator<Item = (usize, &str)> {
        let has = |place: usize| {
            let mut groups = self.groups.iter();
            groups.any(|(_, bars)| bars.get(place).is_some_and(Option::is_some))
        };
        let all = self.series.iter().map(String::as_str).enumerate();
        all.filter(move |(place, _)| has(*place))
    }

    fn json(&self) -> Value {
        let groups = self.groups.iter().map(|(name, values)| {
            let value = |value: &Option<f64>| value.map_or(Value::Null, |x| rounded(x, 3));
            let bars = self.series.iter().cloned().zip(values.iter().map(value));
            json!({ "name": name, "bars": bars.collect::<Map<_, _>>() })
        });
        json!({
            "title": self.title,
            "y": self.y,
            "groups": groups.collect::<Vec<_>>(),
            "note": self.note,
        })
    }
}
