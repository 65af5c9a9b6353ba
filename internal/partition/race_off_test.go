//go:build !race

package partition

// raceDetector says that the race detector is on.
const raceDetector = false
