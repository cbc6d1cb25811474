//! The page: whatever results there are, no plot is empty and no figure is NaN, and nothing
//! is loaded from elsewhere.

use flashkit_experiments::kept::Results;
use flashkit_experiments::page::Page;
use flashkit_experiments::study::{self, Case, Folder, How, Made, Outcome, System};
use flashkit_experiments::{Scale, studies};

/// Some cases of all studies. All other systems get the results of FlashLight in this process:
/// what is tested is the page.
fn results(folder: &Folder) -> Vec<Case> {
    let wanted = |case: &Case| {
        let id = &case.id;
        id.starts_with("micro/") && (id.contains("/512k/") || id.contains("/128k/"))
            || id.starts_with("uflip/locality/rw/")
            || id.starts_with("peers/append/")
            || id.starts_with("loads/sqlite/")
    };
    let cases: Vec<Case> = studies()
        .iter()
        .flat_map(|study| (study.cases)(Scale::Full))
        .filter(wanted)
        .collect();
    let own: Vec<Case> = cases
        .iter()
        .filter(|c| c.system == System::FlashLight)
        .cloned()
        .collect();
    let how = How {
        folder,
        guests: &|| anyhow::bail!("not asked for"),
        jobs: 2,
        retry: false,
        stale: false,
        progress: &|_| {},
    };
    study::run(&own, &how).unwrap();
    for outcome in folder.load_all(&own).unwrap() {
        assert_eq!(outcome.error, None, "{}", outcome.case);
    }
    for case in cases
        .iter()
        .filter(|case| case.system != System::FlashLight)
    {
        let same = case
            .id
            .replace(case.system.name(), System::FlashLight.name());
        if let Some(outcome) = folder.load(&same).unwrap() {
            let kernel = Some("6.1 (test)".to_owned());
            let made = Made {
                kernel,
                ..outcome.made
            };
            let report = outcome.report.ok_or_else(|| "none".to_owned());
            folder.save(&Outcome::new(case, report, made)).unwrap();
        }
    }
    // One that has failed.
    let failed = cases
        .iter()
        .find(|case| case.system == System::Ubifs)
        .unwrap();
    let outcome = Outcome::new(failed, Err("no space <left>".into()), Made::here(None));
    folder.save(&outcome).unwrap();
    cases
}

/// What is between two marks, each time.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    text.split(from)
        .skip(1)
        .filter_map(|rest| rest.split(to).next())
        .collect()
}

#[test]
fn no_plot_is_empty_and_no_figure_is_nan() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    let cases = results(&folder);
    let page = Page::of(&Results::of(&folder)).unwrap();
    let html = page.html().unwrap();

    let plots = between(&html, "<svg", "</svg>");
    // Figures 2, 4, 5 and 6 and ours, one of uFLIP, and the bars of traces and loads.
    assert_eq!(plots.len(), 4 + 4 + 4 + 6 * 6 + 6 * 4 + 1 + 2);
    for plot in &plots {
        let points = plot.matches("<circle").count() + plot.matches("<rect").count();
        assert!(points >= 2, "an empty plot: {plot}");
    }
    for figure in between(&html, "<figure", "</figure>") {
        assert_eq!(between(figure, "<svg", "</svg>").len(), 1);
        assert!(figure.contains("class=\"legend\""));
    }
    for word in ["NaN", "inf", "null"] {
        let shown = |text: &&str| {
            text.split(|c: char| !c.is_alphanumeric())
                .any(|w| w == word)
        };
        let line = html.lines().find(shown);
        assert!(line.is_none(), "{word} on the page: {line:?}");
    }
    // What failed is told, as text.
    assert!(html.contains("no space &lt;left&gt;"));
    // Nothing is loaded from elsewhere.
    for mark in [" src=", "@import", "url(", "<script", "<link"] {
        assert!(!html.contains(mark), "{mark}");
    }
    for link in between(&html, "href=\"", "\"") {
        assert!(link.starts_with('#'), "{link}");
        assert!(html.contains(&format!("id=\"{}\"", &link[1..])), "{link}");
    }
    // Every case with a result is there, in each form.
    let (csv, json) = (page.csv().unwrap(), page.json().to_string());
    for case in &cases {
        if folder.load(&case.id).unwrap().is_some() {
            for (what, text) in [("csv", &csv), ("json", &json)] {
                assert!(text.contains(&case.id), "{} is not in {what}", case.id);
            }
        }
    }
    let columns = csv.lines().next().unwrap().split(',').count();
    assert_eq!(columns, 26);
    assert!(!csv.contains("NaN"));
}

#[test]
fn a_folder_without_results() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    let Err(error) = Page::of(&Results::of(&folder)) else {
        panic!("a page of nothing");
    };
    assert!(error.to_string().contains("no results"), "{error}");
    std::fs::create_dir_all(dir.path().join("peers/seq")).unwrap();
    std::fs::write(dir.path().join("peers/seq/ubifs.json"), "{").unwrap();
    let Err(error) = Page::of(&Results::of(&folder)) else {
        panic!("a page of a broken result");
    };
    assert!(
        format!("{error:#}").contains("seq/ubifs.json: EOF"),
        "{error:#}"
    );
}
