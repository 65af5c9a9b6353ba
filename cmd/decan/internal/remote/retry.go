package remote

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

const (
	// A request that fails with a temporary error is retried tryMax times, with
	// pauses that double from tryMin to tryLong: half a minute in total. A throttled
	// request is retried without a limit.
	tryMax  = 8
	tryMin  = 100 * time.Millisecond
	tryLong = 10 * time.Second
)

// Retrying sends a request, and repeats it after temporary errors. It is for long work
// that a restart of the server must not end, and for requests that may be sent twice.
func Retrying(ctx context.Context, send func() (Answer, error)) (Answer, error) {
	pause := tryMin
	for failed := 0; ; {
		a, err := send()
		wait := pause
		switch {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case isFinal(err):
			return a, err
		case err == nil && a.Status == http.StatusTooManyRequests:
			wait = retryAfter(a, pause)
		case err == nil && !passing(a.Status):
			return a, nil
		default:
			if failed++; failed > tryMax {
				return a, err
			}
			pause = min(2*pause, tryLong)
		}
		if err := sleep(ctx, wait); err != nil {
			return a, err
		}
	}
}

// pause waits as long as an answer of 429 asks for, or otherwise.
func pause(ctx context.Context, a Answer, otherwise time.Duration) error {
	return sleep(ctx, retryAfter(a, otherwise))
}

func retryAfter(a Answer, otherwise time.Duration) time.Duration {
	if millis, err := strconv.ParseFloat(a.Header.Get("x-ms-retry-after-ms"), 64); err == nil && millis >= 0 && millis < 1e6 {
		return time.Duration(millis * float64(time.Millisecond))
	}
	return otherwise
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passing reports whether a status is temporary.
func passing(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusGone, 449, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
