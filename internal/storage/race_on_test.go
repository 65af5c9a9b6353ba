//go:build race

package storage

// raceDetector says that the tests run under the race detector, which makes them
// several times as slow.
const raceDetector = true
