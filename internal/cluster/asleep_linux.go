package cluster

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep returns for how long the machine has been suspended since it was started. The
// monotonic clock does not count that time.
func asleep() time.Duration {
	var boot, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	// The two clocks are read one after another, so a difference below a second is noise.
	return time.Duration(boot.Nano() - awake.Nano()).Truncate(time.Second)
}
