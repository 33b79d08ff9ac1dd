package sender

import (
	"errors"
	"fmt"
	"strconv"

	"kusto-agent/sender/internal/delivery"
)

// Concurrency is how many requests may be under way to a cluster: a number, or Auto,
// as many as pay.
type Concurrency int

// Auto is a Concurrency that the sender finds by itself, from the latency of requests
// and from throttling.
const Auto Concurrency = delivery.Found

// MaxConcurrency bounds how many requests may be asked for at one time.
const MaxConcurrency = 1024

// Most is how many requests there are at most.
func (c Concurrency) Most() int {
	if c == Auto {
		return delivery.MostFound
	}
	return int(c)
}

var errConcurrency = errors.New("want auto, or a whole number such as 8")

// UnmarshalText reads auto or a number.
func (c *Concurrency) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*c = Auto
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return errConcurrency
	}
	if n < 1 || n > MaxConcurrency {
		return fmt.Errorf("out of range; want auto, or 1 to %d", MaxConcurrency)
	}
	*c = Concurrency(n)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (c Concurrency) MarshalText() ([]byte, error) {
	if c == Auto {
		return []byte("auto"), nil
	}
	return strconv.AppendInt(nil, int64(c), 10), nil
}

// MarshalYAML writes a number as one.
func (c Concurrency) MarshalYAML() (any, error) {
	if c == Auto {
		return "auto", nil
	}
	return int(c), nil
}
