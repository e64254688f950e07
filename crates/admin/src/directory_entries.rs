//! Reading all entries of a kind from the directory, which returns them in pages.

use directory::ListPage;

use crate::limits::DIRECTORY_PAGE_SIZE;

/// Returns all entries. `page` returns those from a position on, at most a given number.
pub(crate) fn all_entries<T>(page: &dyn Fn(u64, usize) -> directory::Result<ListPage<T>>) -> directory::Result<Vec<T>> {
    let mut found = Vec::new();
    loop {
        let entries = page(found.len() as u64, DIRECTORY_PAGE_SIZE)?.entries;
        if entries.is_empty() {
            return Ok(found);
        }
        found.extend(entries);
    }
}
