//! What all structs of options have in common.

/// For each field a method that sets it, so that options can be given in a row, and fields can be
/// added without breaking anyone.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field.into();
                self
            }
        )*
    };
}

pub(crate) use setters;
