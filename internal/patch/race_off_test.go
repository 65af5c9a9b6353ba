//go:build !race

package patch

// raceDetector says that the race detector is on.
const raceDetector = false
