package sender

import (
	"errors"
	"fmt"
	"strconv"

	"kusto-agent/sender/internal/delivery"
)

// Concurrency is the most requests that may be in flight to one cluster at a time: a number from 1 to
// MaxConcurrency, or Auto.
type Concurrency int

// Auto is a Concurrency that the sender finds by itself, from the latency of requests
// and from throttling.
const Auto Concurrency = delivery.Found

// MaxConcurrency bounds how many requests may be asked for at one time.
const MaxConcurrency = 1024

// Most returns the largest number of requests that can be in flight at a time: for Auto the bound that
// the search for a good number keeps to, otherwise the number itself.
func (c Concurrency) Most() int {
	if c == Auto {
		return delivery.MostFound
	}
	return int(c)
}

var errConcurrency = errors.New("want auto, or a whole number such as 8")

// UnmarshalText accepts the word auto or a whole number from 1 to MaxConcurrency. The error says what
// is accepted; c is then unchanged.
func (c *Concurrency) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*c = Auto
		return nil
	}
	n, err := strconv.Atoi(string(text))
	tooLong := errors.Is(err, strconv.ErrRange)
	if err != nil && !tooLong {
		return errConcurrency
	}
	if tooLong || n < 1 || n > MaxConcurrency {
		return fmt.Errorf("out of range; want auto, or 1 to %d", MaxConcurrency)
	}
	*c = Concurrency(n)
	return nil
}

// MarshalText writes auto or the number, in the form that UnmarshalText reads.
func (c Concurrency) MarshalText() ([]byte, error) {
	if c == Auto {
		return []byte("auto"), nil
	}
	return strconv.AppendInt(nil, int64(c), 10), nil
}

// MarshalYAML returns the string auto, or an int, so that a number is written without quotes.
func (c Concurrency) MarshalYAML() (any, error) {
	if c == Auto {
		return "auto", nil
	}
	return int(c), nil
}
