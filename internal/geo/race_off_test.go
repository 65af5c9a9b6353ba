//go:build !race

package geo

// raceDetector says that the race detector is on.
const raceDetector = false
