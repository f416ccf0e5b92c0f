//! Boxes of the texts in a picture, which tell whether one lies on another.

/// The width of a letter as a share of its size: DejaVu Sans, the widest of the usual fonts, has 0.6 in the mean.
const LETTER: f64 = 0.6;

/// A text of a picture and the pixels that it takes.
struct TextBox {
    text: String,
    /// Left, top, right and bottom.
    sides: [f64; 4],
}

/// Faults of a picture's layout, one line each: texts that lie on each other or reach out of the picture.
pub(crate) fn faults(svg: &str) -> Vec<String> {
    let size = |name: &str| attribute(svg, name).expect("a picture has a size");
    let (picture_width, picture_height) = (size("width"), size("height"));
    let texts: Vec<TextBox> = svg.lines().filter_map(text).collect();
    let mut faults = Vec::new();
    for (index, one) in texts.iter().enumerate() {
        let [left, top, right, bottom] = one.sides;
        if left < 0.0 || top < 0.0 || right > picture_width || bottom > picture_height {
            faults.push(format!("`{}` reaches out of the picture: {:?}", one.text, one.sides));
        }
        let on_it = texts[index + 1..].iter().filter(|other| {
            let [other_left, other_top, other_right, other_bottom] = other.sides;
            left < other_right && other_left < right && top < other_bottom && other_top < bottom
        });
        faults.extend(on_it.map(|other| format!("`{}` lies on `{}`", one.text, other.text)));
    }
    faults
}

fn text(line: &str) -> Option<TextBox> {
    let inner = line.strip_prefix("<text ")?;
    let (x, y, size) = (attribute(inner, "x")?, attribute(inner, "y")?, attribute(inner, "font-size")?);
    let text = inner.split_once('>')?.1.strip_suffix("</text>")?;
    let shown = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (markup, letter)| text.replace(markup, letter));
    let width = shown.chars().count() as f64 * size * LETTER;
    let left = match inner {
        inner if inner.contains("text-anchor=\"middle\"") => x - width / 2.0,
        inner if inner.contains("text-anchor=\"end\"") => x - width,
        _ => x,
    };
    Some(TextBox { text: shown, sides: [left, y - 0.75 * size, left + width, y + 0.2 * size] })
}

fn attribute(tag: &str, name: &str) -> Option<f64> {
    let from = tag.find(&format!("{name}=\""))? + name.len() + 2;
    tag[from..].split('"').next()?.parse().ok()
}

#[test]
fn texts_that_touch_are_found() {
    #[track_caller]
    fn check(places: &[(f64, f64)], text: &str, expected: &[&str]) {
        let text =
            |(x, y): &(f64, f64)| format!("<text x=\"{x}\" y=\"{y}\" font-size=\"12\">{text}</text>\n");
        let texts: String = places.iter().map(text).collect();
        let faults = faults(&format!("<svg width=\"760\" height=\"100\">\n{texts}</svg>\n"));
        assert!(faults.len() == expected.len(), "{faults:?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.contains(expected), "{faults:?}");
        }
    }
    check(&[(5.0, 50.0), (5.0, 64.0), (5.0, 78.0)], "a line", &[]);
    check(&[(5.0, 50.0), (15.0, 58.0)], "a &lt; line", &["`a < line` lies on `a < line`"]);
    check(&[(700.0, 50.0)], "much too long", &["reaches out"]);
    check(&[(5.0, 105.0)], "below", &["reaches out"]);
}
