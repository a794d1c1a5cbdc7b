use super::*;

#[test]
fn words_keep_generation_and_value_apart() {
    let state = next_state((41 << 8) | u64::from(STATE_ASKED), STATE_HELD);
    assert_eq!((state >> 8, state_of(state)), (42, STATE_HELD));
}

#[test]
fn what_is_told_of_a_file_system_is_known_and_one_too_many_is_left_out() {
    let devices = Devices(
        [const {
            let costs = [const { AtomicU64::new(0) }; Way::COUNT];
            Device { device: AtomicU64::new(0), costs }
        }; DEVICES_MAX],
    );
    let cost = |device: usize| Cost { call_ns: device as u32 * 100, unit_ns: 7 };
    for device in 1..=DEVICES_MAX + 1 {
        devices.tell(device as u64, Way::Write, cost(device));
    }
    devices.tell(0, Way::Write, cost(1));
    for device in 1..=DEVICES_MAX {
        assert_eq!(devices.cost(device as u64, Way::Write), Some(cost(device)));
        assert_eq!(devices.cost(device as u64, Way::Read), None);
    }
    assert_eq!(devices.cost(DEVICES_MAX as u64 + 1, Way::Write), None);
    devices.tell(3, Way::Write, cost(9));
    assert_eq!(devices.cost(3, Way::Write), Some(cost(9)), "the last word counts");
    devices.tell(3, Way::Write, cost(10));
    assert_eq!(devices.cost(3, Way::Write), Some(cost(9)), "nearly the same");
}

#[test]
fn text_keeps_the_end_of_what_is_too_long() {
    let text = Text::new();
    let mut buffer = [0; TEXT_BYTES_MAX];
    for len in [0, 1, 7, 8, 9, 255, 256, 257, 1000] {
        let long: std::vec::Vec<u8> = (0..len).map(|i| i as u8).collect();
        text.store(&long);
        let kept = &long[long.len().saturating_sub(TEXT_BYTES_MAX)..];
        assert_eq!(text.load(&mut buffer), kept, "{len}");
    }
}
