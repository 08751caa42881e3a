//! A slice as a grid of rows that a loop visits in tiles, so that items that are near in both
//! directions go to the same worker.
//!
//! No two tiles of one grid share an item, so each tile may be changed by a different thread. A
//! tile provides its part of each row separately, and never the items between these parts.

use super::items::{Base, Count, HasItem, Sections, Walk};
use std::ops::Range;

/// The division of a grid into tiles.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    width: usize,
    height: usize,
    /// The number of columns and rows of a tile. Tiles at the end may be smaller.
    tile: (usize, usize),
}

impl Cut {
    #[track_caller]
    fn new(len: usize, width: usize, tile: (usize, usize)) -> Self {
        assert!(width > 0, "a grid must have at least one column, not 0");
        assert!(
            tile.0 > 0 && tile.1 > 0,
            "a tile must have at least one column and one row, not {} and {}",
            tile.0,
            tile.1
        );
        assert!(
            len.is_multiple_of(width),
            "{len} items do not fill whole rows of {width} items"
        );
        let height = len / width;
        Self {
            width,
            height,
            tile,
        }
    }

    /// Returns the number of tiles in a row of tiles.
    fn across(&self) -> usize {
        self.width.div_ceil(self.tile.0)
    }

    fn tiles(&self) -> usize {
        self.across() * self.height.div_ceil(self.tile.1)
    }

    /// Returns the columns and rows of a tile, limited to the grid.
    fn area(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let side = |at: usize, len: usize, end: usize| {
            let begin = at * len;
            begin..end.min(begin.saturating_add(len))
        };
        let (across, (columns, rows)) = (self.across(), self.tile);
        (
            side(index % across, columns, self.width),
            side(index / across, rows, self.height),
        )
    }
}

/// A slice as a grid whose tiles a loop reads.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::Tiles;
///
/// let grid: Vec<u32> = (0..6 * 4).collect(); // four rows of six
/// let tiles = Tiles::new(&grid, 6, (3, 2));
/// let sums = pool.map(tiles, |tile| {
///     tile.rows().map(|y| tile.row(y).iter().sum::<u32>()).sum::<u32>()
/// });
/// assert_eq!(sums, [24, 42, 96, 114]);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tiles<'a, T> {
    items: &'a [T],
    cut: Cut,
}

/// A slice as a grid whose tiles a loop changes.
///
/// ```
/// use creel::{Pool, loops::{Tiles, TilesMut}};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let (mut wet, rain) = (vec![0; 6 * 4], vec![1; 6 * 4]); // four rows of six
/// let tiles = (TilesMut::new(&mut wet, 6, (4, 2)), Tiles::new(&rain, 6, (4, 2)));
/// pool.for_each_indexed(tiles, |index, (mut wet, rain)| {
///     for y in wet.rows() {
///         for (wet, rain) in wet.row_mut(y).iter_mut().zip(rain.row(y)) {
///             *wet += rain * index;
///         }
///     }
/// });
/// assert_eq!(wet[..6], [0, 0, 0, 0, 1, 1]);
/// assert_eq!(wet[18..], [2, 2, 2, 2, 3, 3]);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
pub struct TilesMut<'a, T> {
    items: &'a mut [T],
    cut: Cut,
}

impl<'a, T> Tiles<'a, T> {
    /// Divides rows of `width` items into tiles of `tile.0` columns and `tile.1` rows. Tiles at the
    /// end may be smaller. The tiles are numbered row by row.
    ///
    /// # Panics
    /// Panics if `width` or a side of `tile` is 0, or if the number of items is not a multiple of
    /// `width`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::loops::Tiles;
    ///
    /// let grid: Vec<u32> = (0..6 * 4).collect(); // four rows of six
    /// let first = pool.map(Tiles::new(&grid, 6, (4, 3)), |tile| tile.row(tile.rows().start)[0]);
    /// assert_eq!(first, [0, 4, 18, 22]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn new(items: &'a [T], width: usize, tile: (usize, usize)) -> Self {
        let cut = Cut::new(items.len(), width, tile);
        Self { items, cut }
    }
}

impl<'a, T> TilesMut<'a, T> {
    /// Divides rows of `width` items into tiles of `tile.0` columns and `tile.1` rows. Tiles at the
    /// end may be smaller. The tiles are numbered row by row.
    ///
    /// # Panics
    /// Panics if `width` or a side of `tile` is 0, or if the number of items is not a multiple of
    /// `width`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::loops::TilesMut;
    ///
    /// let mut grid = [0; 6];
    /// pool.for_each_indexed(TilesMut::new(&mut grid, 3, (2, 2)), |index, mut tile| {
    ///     for y in tile.rows() {
    ///         tile.row_mut(y).fill(index);
    ///     }
    /// });
    /// assert_eq!(grid, [0, 0, 1, 0, 0, 1]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn new(items: &'a mut [T], width: usize, tile: (usize, usize)) -> Self {
        let cut = Cut::new(items.len(), width, tile);
        Self { items, cut }
    }
}

/// A tile of a grid that a loop reads.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::Tiles;
///
/// let grid = [1, 2, 3, 4, 5, 6];
/// let corners = pool.map(Tiles::new(&grid, 3, (2, 1)), |tile| {
///     (tile.columns().start, tile.rows().start)
/// });
/// assert_eq!(corners, [(0, 0), (2, 0), (0, 1), (2, 1)]);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a, T> {
    items: &'a [T],
    cut: Cut,
    index: usize,
}

impl<'a, T> Tile<'a, T> {
    /// Returns the tile's columns in the grid.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::loops::Tiles;
    ///
    /// let columns = pool.map(Tiles::new(&[0; 10], 5, (3, 2)), |tile| tile.columns());
    /// assert_eq!(columns, [0..3, 3..5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn columns(&self) -> Range<usize> {
        self.cut.area(self.index).0
    }

    /// Returns the tile's rows in the grid.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::loops::Tiles;
    ///
    /// let rows = pool.map(Tiles::new(&[0; 10], 2, (2, 3)), |tile| tile.rows());
    /// assert_eq!(rows, [0..3, 3..5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.cut.area(self.index).1
    }

    /// Returns the tile's part of row `y` of the grid.
    ///
    /// # Panics
    /// Panics if the tile does not contain row `y`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::loops::Tiles;
    ///
    /// let grid = ["a", "b", "c", "d", "e", "f"];
    /// let words = pool.map(Tiles::new(&grid, 3, (2, 2)), |tile| tile.row(1).concat());
    /// assert_eq!(words, ["de", "f"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn row(&self, y: usize) -> &'a [T] {
        let (columns, rows) = self.cut.area(self.index);
        assert!(rows.contains(&y), "a tile of rows {rows:?} has no row {y}");
        let begin = y * self.cut.width;
        &self.items[begin + columns.start..begin + columns.end]
    }
}

/// A tile of a grid that a loop changes. Only one thread has access to it.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::{TileMut, TilesMut};
///
/// /// Halves the brightness of a tile.
/// fn shade(tile: &mut TileMut<u8>) {
///     for y in tile.rows() {
///         tile.row_mut(y).iter_mut().for_each(|x| *x /= 2);
///     }
/// }
/// let mut image = [200; 8 * 8];
/// pool.for_each(TilesMut::new(&mut image, 8, (4, 4)), |mut tile| shade(&mut tile));
/// assert_eq!(image, [100; 8 * 8]);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub struct TileMut<'a, T> {
    base: Base<'a, T>,
    cut: Cut,
    index: usize,
}

// SAFETY: This represents the `&mut [T]` of the tile's rows.
unsafe impl<T: Send> Send for TileMut<'_, T> {}

impl<T> TileMut<'_, T> {
    /// Returns the tile's columns in the grid.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::loops::TilesMut;
    ///
    /// let mut grid = [0; 10];
    /// let columns = pool.map(TilesMut::new(&mut grid, 5, (3, 2)), |tile| tile.columns());
    /// assert_eq!(columns, [0..3, 3..5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn columns(&self) -> Range<usize> {
        self.cut.area(self.index).0
    }

    /// Returns the tile's rows in the grid.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::loops::TilesMut;
    ///
    /// let mut grid = [0; 10];
    /// let rows = pool.map(TilesMut::new(&mut grid, 2, (2, 3)), |tile| tile.rows());
    /// assert_eq!(rows, [0..3, 3..5]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.cut.area(self.index).1
    }

    /// Returns the tile's part of row `y` of the grid.
    ///
    /// # Panics
    /// Panics if the tile does not contain row `y`.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use creel::loops::TilesMut;
    ///
    /// let mut grid = [1, 2, 3, 4, 5, 6];
    /// pool.for_each(TilesMut::new(&mut grid, 3, (2, 2)), |mut tile| tile.row_mut(1).reverse());
    /// assert_eq!(grid, [1, 2, 3, 5, 4, 6]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn row_mut(&mut self, y: usize) -> &mut [T] {
        let (columns, rows) = self.cut.area(self.index);
        assert!(rows.contains(&y), "a tile of rows {rows:?} has no row {y}");
        let begin = y * self.cut.width;
        // SAFETY: Validity: the area is inside the grid. Aliasing: no other tile contains any of
        // it, this tile is given out once, and it is borrowed for as long as the row is in use.
        unsafe { self.base.part(begin + columns.start..begin + columns.end) }
    }
}

impl<T> std::fmt::Debug for TileMut<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TileMut")
            .field("columns", &self.columns())
            .field("rows", &self.rows())
            .finish()
    }
}

impl<'a, T> HasItem<'_> for Tiles<'a, T> {
    type Item = Tile<'a, T>;
}

// SAFETY: The items are only read, by threads that may share them.
unsafe impl<'a, T: Sync> Walk for Tiles<'a, T> {
    type Base = Self;
    type Hand = Self;
    const COUNTED: bool = true;
    const COARSE: bool = true;

    fn count(&self, count: &mut Count) {
        count.add(self.cut.tiles());
    }

    fn open(self, _: Sections) -> Self {
        self
    }

    unsafe fn take(base: &Self, _: usize, _: usize) -> Self {
        let Self { items, cut } = *base;
        Self { items, cut }
    }

    unsafe fn item<'x>(hand: &'x mut Self, index: usize) -> Tile<'a, T>
    where
        Self: 'x,
    {
        let Self { items, cut } = *hand;
        Tile { items, cut, index }
    }
}

impl<'a, T> HasItem<'_> for TilesMut<'a, T> {
    type Item = TileMut<'a, T>;
}

// SAFETY: The callers promise that nobody receives a tile twice, and no two tiles share an item.
unsafe impl<'a, T: Send> Walk for TilesMut<'a, T> {
    type Base = (Base<'a, T>, Cut);
    type Hand = (Base<'a, T>, Cut);
    const COUNTED: bool = true;
    const COARSE: bool = true;

    fn count(&self, count: &mut Count) {
        count.add(self.cut.tiles());
    }

    fn open(self, _: Sections) -> Self::Base {
        (Base::new(self.items), self.cut)
    }

    unsafe fn take(base: &Self::Base, _: usize, _: usize) -> Self::Hand {
        *base
    }

    unsafe fn item<'x>(&mut (base, cut): &'x mut Self::Hand, index: usize) -> TileMut<'a, T>
    where
        Self: 'x,
    {
        TileMut { base, cut, index }
    }
}
