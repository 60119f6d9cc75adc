//! Colours and markers.

/// Red, green, blue.
pub(super) type Color = [u8; 3];

/// What a picture is to be read on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Theme {
    /// Dark on white.
    #[default]
    Light,
    /// Light on a dark grey.
    Dark,
}

/// The colours of a theme.
#[derive(Debug, PartialEq)]
pub(super) struct Palette {
    pub background: Color,
    pub text: Color,
    pub muted: Color,
    pub grid: Color,
    pub axis: Color,
    /// What went wrong.
    pub warning: Color,
    /// Those of Okabe and Ito, which people who see few colours tell apart; lighter or darker where they would vanish in
    /// the background.
    pub series: [Color; 8],
}

static LIGHT: Palette = Palette {
    background: [255, 255, 255],
    text: [31, 35, 40],
    muted: [89, 99, 110],
    grid: [228, 231, 235],
    axis: [140, 149, 159],
    warning: [190, 30, 45],
    series: [
        [0, 114, 178],
        [213, 94, 0],
        [0, 158, 115],
        [190, 95, 150],
        [230, 159, 0],
        [86, 180, 233],
        [70, 70, 70],
        [148, 140, 20],
    ],
};

static DARK: Palette = Palette {
    background: [21, 25, 30],
    text: [230, 237, 243],
    muted: [154, 164, 175],
    grid: [42, 48, 56],
    axis: [110, 118, 129],
    warning: [255, 123, 114],
    series: [
        [86, 180, 233],
        [230, 159, 0],
        [30, 190, 145],
        [226, 140, 185],
        [240, 228, 66],
        [255, 125, 70],
        [200, 200, 200],
        [120, 150, 255],
    ],
};

impl Theme {
    pub(super) fn palette(self) -> &'static Palette {
        match self {
            Self::Light => &LIGHT,
            Self::Dark => &DARK,
        }
    }
}

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Wedge,
    Hexagon,
    Star,
}

/// As many as have no divisor in common with the number of colours.
const MARKERS: [Marker; 7] = [
    Marker::Circle,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Wedge,
    Marker::Hexagon,
    Marker::Star,
];

/// Lengths of lines and gaps; a solid line has none.
pub(super) type Dashes = &'static [f64];

const DASHES: [Dashes; 4] = [&[], &[6.0, 3.0], &[2.0, 2.5], &[8.0, 3.0, 2.0, 3.0]];

/// How a series looks: no two of the first 56 alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub color: Color,
    pub marker: Marker,
    pub dashes: Dashes,
}

impl Palette {
    pub fn look(&self, series: usize) -> Look {
        Look {
            color: self.series[series % self.series.len()],
            marker: MARKERS[series % MARKERS.len()],
            dashes: DASHES[series / self.series.len() % DASHES.len()],
        }
    }

    /// A colour with some of the background in it.
    pub fn faint(&self, color: Color, share: f64) -> Color {
        let mix = |place: usize| {
            let (front, back) = (f64::from(color[place]), f64::from(self.background[place]));
            // CAST: between the two
            (front * share + back * (1.0 - share)).round() as u8
        };
        [mix(0), mix(1), mix(2)]
    }
}
