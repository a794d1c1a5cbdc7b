//! A page: one file that makes no request, reads in light and dark, on a phone and on paper, with a
//! keyboard and with a screen reader. It has no script. Its first figure is the one that answers.
//!
//! Invariant: every text passes through [`escaped`], and a policy in the page's head forbids the
//! browser to load anything, should one ever not.

use crate::chart::{STYLE, escaped};
use crate::content::{Block, Figure, Section, Table};
use crate::data::Report;
use std::fmt::Write as _;

/// How every page begins, by which an older one is recognised.
pub const START: &str = "<!DOCTYPE html>\n<!-- made by sweetspot report -->\n";

/// Rows of a table; more would make a page that nobody reads, and JSON and CSV have all.
const TABLE_ROWS_MAX: usize = 1000;

/// Words that are longer are broken into lines.
const LONG: usize = 24;

const LAYOUT: &str = "\
*{box-sizing:border-box}html{color-scheme:light dark}\
body{margin:0 auto;max-width:66rem;padding:1.25rem 1rem 4rem;background:var(--paper);color:var(--ink);\
font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
h1,.heading{font-size:1.5rem;line-height:1.25;margin:.1rem 0 .5rem;overflow-wrap:anywhere}\
.kind{color:var(--soft);font-size:.875rem;margin:0}\
section{margin-bottom:3rem}section+section{border-top:1px solid var(--line);padding-top:1.5rem}\
.answer{font-size:1.2rem;line-height:1.45;margin:.6rem 0 1rem;max-width:46rem;\
border-left:4px solid var(--c0);padding-left:.8rem}\
p{max-width:46rem;overflow-wrap:anywhere}\
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));gap:1.5rem 2rem;\
margin:1.5rem 0}\
figure{margin:0;min-width:0;break-inside:avoid}figure.wide{max-width:38rem}\
figure .title{font-size:1rem;font-weight:600;margin:0 0 .4rem;line-height:1.4}\
.lead{margin:1.5rem 0 .4rem}.lead strong{display:block;font-weight:600}\
figcaption,.lead span{color:var(--soft);font-size:.84rem;font-weight:400;line-height:1.4}\
svg{display:block;width:100%;height:auto;overflow:visible}\
details{margin-top:.4rem;font-size:.9rem}summary{cursor:pointer;color:var(--c0)}\
:focus-visible{outline:3px solid var(--c1);outline-offset:2px}\
.scroll{overflow-x:auto;margin:0 0 1.25rem}\
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}\
th,td{padding:.28rem .8rem .28rem 0;text-align:right;vertical-align:top;white-space:nowrap}\
th,thead td{font-weight:600;border-bottom:2px solid var(--line)}td,tbody th{border-bottom:1px solid var(--line)}\
tbody th{font-weight:400}.w{text-align:left}.long{white-space:normal;overflow-wrap:anywhere;min-width:14rem}\
.claims{padding-left:1.2rem;max-width:46rem;font-size:.9rem}.claims li{margin:.25rem 0}\
tr.marked>*{font-weight:600;background:color-mix(in srgb,var(--c0) 14%,transparent)}\
pre{overflow-x:auto;font-size:.85rem;border:1px solid var(--line);padding:.75rem;border-radius:6px}\
nav ol{padding-left:1.2rem}a{color:var(--c0)}\
footer{color:var(--soft);font-size:.84rem}\
@media(max-width:34rem){svg text{font-size:14.5px}h1,.heading{font-size:1.25rem}.answer{font-size:1.08rem}}\
@media print{:root{--ink:#000;--soft:#444;--paper:#fff;--line:#bbb;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;\
--c3:#b4568c;--c4:#8a6d00;--c5:#2f8fc4;--c6:#5b5b5b;--c7:#a3123f}body{max-width:none;padding:0;font-size:10pt}\
details{display:none}.scroll{overflow:visible}nav{display:none}\
th,td{white-space:normal;padding-right:.4rem;font-size:8pt}\
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}h1,h2,h3{break-after:avoid}tr{break-inside:avoid}\
.figures{grid-template-columns:1fr 1fr}}";

/// Those that were given to charts and tables: each is named once in a page.
struct Numbers {
    charts: usize,
    tables: usize,
    /// Of the heading of a section: of several the page's own is above them.
    level: usize,
}

/// The page.
pub fn html(report: &Report, sections: &[Section]) -> String {
    let title = sections.first().map_or("", |first| first.heading.as_str());
    let mut page = format!(
        "{START}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{} - sweetspot report</title>\n<style>{STYLE}{LAYOUT}</style>\n</head>\n<body>\n",
        escaped(title)
    );
    if sections.len() > 1 {
        let _ = writeln!(page, "<header><h1>{} results</h1>", sections.len());
        page.push_str("<nav aria-label=\"Contents\"><ol>");
        for (number, section) in sections.iter().enumerate() {
            let heading = escaped(&section.heading);
            let _ = write!(page, "<li><a href=\"#s{number}\">{heading}</a></li>");
        }
        page.push_str("</ol></nav></header>\n");
    }
    page.push_str("<main>\n");
    let level = if sections.len() > 1 { 2 } else { 1 };
    let mut numbers = Numbers { charts: 0, tables: 0, level };
    for (number, section) in sections.iter().enumerate() {
        add_section(&mut page, section, number, &mut numbers);
    }
    page.push_str("</main>\n<footer>");
    for note in &report.notes {
        let _ = write!(page, "<p>{}.</p>", escaped(note));
    }
    let version = escaped(&report.version);
    let _ = writeln!(
        page,
        "<p>Made by sweetspot {version}: sweetspot report --html FILE.</p></footer>"
    );
    page.push_str("</body>\n</html>\n");
    page
}

fn add_section(page: &mut String, section: &Section, number: usize, numbers: &mut Numbers) {
    let (kind, heading) = (escaped(&section.kind), escaped(&section.heading));
    let level = numbers.level;
    let _ = write!(
        page,
        "<section id=\"s{number}\" aria-labelledby=\"h{number}\"><p class=\"kind\">{kind}</p>\n\
         <h{level} class=\"heading\" id=\"h{number}\">{heading}</h{level}>\n"
    );
    // Figures that follow each other share a grid.
    let is_figure = |block: &Block| matches!(block, Block::Figure(_));
    for blocks in section.blocks.chunk_by(|one, next| is_figure(one) && is_figure(next)) {
        let alone = blocks.len() == 1;
        if is_figure(&blocks[0]) && !alone {
            page.push_str("<div class=\"figures\">\n");
        }
        for block in blocks {
            match block {
                Block::Answer(text) => {
                    let _ = writeln!(page, "<p class=\"answer\">{}</p>", escaped(text));
                }
                Block::Text(text) => {
                    let _ = writeln!(page, "<p>{}</p>", escaped(text));
                }
                Block::List(items) => {
                    page.push_str("<ul class=\"claims\">");
                    for item in items {
                        let _ = write!(page, "<li>{}</li>", escaped(item));
                    }
                    page.push_str("</ul>\n");
                }
                Block::Verbatim(text) => {
                    let _ = writeln!(page, "<pre tabindex=\"0\">{}</pre>", escaped(text));
                }
                Block::Table(table) => add_table(page, table, &mut numbers.tables),
                Block::Figure(figure) => {
                    add_figure(page, figure, numbers, if alone { " class=\"wide\"" } else { "" });
                }
            }
        }
        if is_figure(&blocks[0]) && !alone {
            page.push_str("</div>\n");
        }
    }
    page.push_str("</section>\n");
}

fn add_figure(page: &mut String, figure: &Figure, numbers: &mut Numbers, class: &str) {
    numbers.charts += 1;
    let level = numbers.level + 1;
    let _ = write!(
        page,
        "<figure{class}><h{level} class=\"title\">{}</h{level}>\n{}\n<figcaption>{}</figcaption>\n\
         <details><summary>The figures as a table</summary>",
        escaped(&figure.chart.said.title),
        figure.chart.svg(numbers.charts),
        escaped(&figure.caption)
    );
    add_table(page, &figure.table, &mut numbers.tables);
    page.push_str("</details></figure>\n");
}

fn add_table(page: &mut String, table: &Table, tables: &mut usize) {
    // The first sentence is the name, the rest says how to read it.
    let (name, rest) = table.caption.split_once(". ").unwrap_or((&table.caption, ""));
    let (name, rest) = (escaped(name.trim_end_matches('.')), escaped(rest));
    *tables += 1;
    let _ = write!(
        page,
        "<p class=\"lead\" id=\"n{tables}\"><strong>{name}</strong> <span>{rest}</span></p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"n{tables}\">\
         <table aria-labelledby=\"n{tables}\"><thead><tr>"
    );
    let class = |column: usize, text: &str| match is_words(table, column) {
        true if text.chars().count() > LONG => " class=\"w long\"",
        true => " class=\"w\"",
        false => "",
    };
    for (column, name) in table.header.iter().enumerate() {
        // A column without a name has no heading: an empty one would be read aloud.
        let _ = match name.is_empty() {
            true => write!(page, "<td></td>"),
            false => {
                write!(page, "<th scope=\"col\"{}>{}</th>", class(column, name), escaped(name))
            }
        };
    }
    page.push_str("</tr></thead>\n<tbody>");
    for (number, row) in table.rows.iter().take(TABLE_ROWS_MAX).enumerate() {
        page.push_str(if table.marked == Some(number) { "<tr class=\"marked\">" } else { "<tr>" });
        for (column, text) in row.iter().enumerate() {
            let (open, close) = match column {
                0 => ("th scope=\"row\"", "th"),
                _ => ("td", "td"),
            };
            let _ = write!(page, "<{open}{}>{}</{close}>", class(column, text), escaped(text));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
    let more = table.rows.len().saturating_sub(TABLE_ROWS_MAX);
    if more > 0 {
        let _ = writeln!(page, "<p>{more} rows more: --csv or --json has all.</p>");
    }
}

/// Whether a column is of words: those at the left, and a last one without a name.
fn is_words(table: &Table, column: usize) -> bool {
    column < table.words || table.header[column].is_empty()
}

#[cfg(test)]
mod tests;
