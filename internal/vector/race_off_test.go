//go:build !race

package vector

// raceDetector says that the race detector is on.
const raceDetector = false
