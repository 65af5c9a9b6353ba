//go:build race

package patch

// raceDetector is true if the race detector is on, which takes more memory.
const raceDetector = true
