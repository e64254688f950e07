//! The lite web mail: pages without scripts.
