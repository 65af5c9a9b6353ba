//go:build !race

package scan_test

// raceDetector says that the race detector is on.
const raceDetector = false
