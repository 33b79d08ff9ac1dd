package wire

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"kusto-agent/internal/kusto"
)

// MaxSkew is how far the clock may be off before a warning is logged: the
// authority and the service take tokens that are off by so much.
const MaxSkew = 5 * time.Minute

const clockFix = "timedatectl set-ntp true"

// Clock compares the clock of this machine with what answers say. It is safe for
// concurrent use; a nil one sees nothing.
type Clock struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex    // guards ahead
	ahead time.Duration // of the answers; 0 unless it is more than maxSkew either way
}

// NewClock returns a clock that logs to log when it finds that the clock of this machine is wrong.
func NewClock(log *slog.Logger) *Clock { return &Clock{log: log, now: time.Now} }

// see compares the Date header of an answer that has just come with the clock of this machine, and
// logs when a difference of more than MaxSkew appears or is gone. Answers out of a cache, which have
// the header Age, are ignored.
func (c *Clock) see(h http.Header) {
	if c == nil || h.Get("Age") != "" {
		return
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	ahead := c.now().Sub(date).Truncate(time.Second)
	if ahead.Abs() <= MaxSkew {
		ahead = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ahead == 0 && ahead != 0:
		c.log.Warn("clock of this machine is wrong; tokens and certificates may be refused until it is corrected", "is", skewWords(ahead), "fix", clockFix)
	case c.ahead != 0 && ahead == 0:
		c.log.Info("clock of this machine is correct again")
	}
	c.ahead = ahead
}

// skewWords says how far the clock of this machine is off, as in "5m0s behind". ahead is negative
// if the clock is behind.
func skewWords(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).String() + " behind"
	}
	return ahead.String() + " ahead"
}

// Blame returns err, or a copy with a hint to set the clock if the clock of this machine is wrong
// and may be the cause: err is a refused token (401) or is marked as Timely. err itself is not
// changed. A nil Clock returns err.
func (c *Clock) Blame(err error) error {
	var e *kusto.Error
	if c == nil || !errors.As(err, &e) || !e.Timely && e.Status != http.StatusUnauthorized {
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
