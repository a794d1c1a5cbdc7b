use super::*;

#[test]
fn what_takes_no_room_is_made_up() {
    let is_made_up =
        |magic, blocks| FileSystem { magic, blocks, flags: 0, free_bytes: 0 }.is_made_up();
    assert!(is_made_up(0x9fa0, 0), "proc");
    assert!(is_made_up(0x4249_4e4d, 0), "binfmt_misc");
    assert!(is_made_up(0xde5e_81e4, 64), "efivarfs");
    assert!(!is_made_up(0xef53, 1), "ext4");
    assert!(!is_made_up(0x0102_1994, 0), "a memory file system of any size");
    assert!(!is_made_up(FUSE, 0), "FUSE");
}
