use crate::arguments::Top;
use crate::failure::Failure;
pub fn top(_arguments: &Top) -> Result<u8, Failure> { Ok(0) }
