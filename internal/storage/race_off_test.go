//go:build !race

package storage

// raceDetector says whether the race detector is on, which makes tests several times
// slower.
const raceDetector = false
