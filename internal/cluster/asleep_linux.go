package cluster

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep returns for how long the machine has been suspended since it was started. The
// monotonic clock stands still meanwhile.
func asleep() time.Duration {
	var boot, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	// The two are read one behind the other: what is below a second is no sleep.
	return time.Duration(boot.Nano() - awake.Nano()).Truncate(time.Second)
}
