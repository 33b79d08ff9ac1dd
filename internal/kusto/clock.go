package kusto

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// maxSkew is how far the clock may be off before somebody is told: the
// authority and the service take tokens that are off by so much.
const maxSkew = 5 * time.Minute

const clockFix = "timedatectl set-ntp true"

// clock compares the clock of this machine with what answers say. It is safe for
// concurrent use; a nil one sees nothing.
type clock struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex    // guards ahead
	ahead time.Duration // of the answers; 0 unless it is more than maxSkew either way
}

func newClock(log *slog.Logger) *clock { return &clock{log: log, now: time.Now} }

// see reads the head of an answer that has just come. What a cache kept is old.
func (c *clock) see(h http.Header) {
	if c == nil || h.Get("Age") != "" {
		return
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	ahead := c.now().Sub(date).Truncate(time.Second)
	if ahead.Abs() <= maxSkew {
		ahead = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ahead == 0 && ahead != 0:
		c.log.Warn("clock of this machine is wrong", "is", skewWords(ahead), "fix", clockFix)
	case c.ahead != 0 && ahead == 0:
		c.log.Info("clock of this machine is right again")
	}
	c.ahead = ahead
}

func skewWords(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).String() + " behind"
	}
	return ahead.String() + " ahead"
}

// blame adds to the hint of an error about time, or about a token refused, that
// the clock is wrong, if it is. The error itself is not changed.
func (c *clock) blame(err error) error {
	var e *Error
	if c == nil || !errors.As(err, &e) || !e.timely && e.Status != http.StatusUnauthorized {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead == 0 {
		return err
	}
	told := *e
	told.Hint = "the clock of this machine is " + skewWords(c.ahead) + ", set it right first: " + clockFix
	if e.Hint != "" {
		told.Hint += "; then: " + e.Hint
	}
	return &told
}
