package credential

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/wire"
)

const (
	// refreshEarly is how long before its end a token is replaced.
	refreshEarly = 5 * time.Minute
	// refreshPause is the least time between two token requests after the
	// credentials were refused, and between two that refused tokens asked for: the
	// authority throttles clients that ask without end.
	refreshPause = 30 * time.Second
	// Between two token requests while the authority is out of reach or busy: from
	// the first, doubled each time, to the longest.
	firstPause   = 500 * time.Millisecond
	longestPause = 15 * time.Second
	// mostAskedPause is what a Retry-After of such an authority counts at most.
	mostAskedPause = time.Minute
	// grantTimeout bounds one token request.
	grantTimeout = 30 * time.Second
)

// Tokens is a cache of one token. However many ask, at most one request for it
// is under way; a token that still lives is given out while its successor is
// fetched. The zero value gives out the empty token: method none. It is safe
// for concurrent use.
type Tokens struct {
	grant grant // nil: no token at all
	log   *slog.Logger
	clock *wire.Clock // of this machine, as the answers of the authority and the service show it

	ctx  context.Context // ends the requests under way when Close is called
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	token   string
	got     time.Time
	expires time.Time     // of token; zero: never, or there is no token
	refused bool          // the service refused token
	why     *kusto.Error  // with this
	err     error         // of the last request; nil: it gave a token
	after   time.Time     // no request before, after one that failed
	pause   time.Duration // after the last request that was not answered; 0: it was
	forced  time.Time     // no request before for a token refused
	flight  chan struct{} // closed when the request under way has ended; nil: none is
}

// grant asks for a token, or reads one.
type grant interface {
	// fetch returns a token and when it ends; zero: that is not known.
	fetch(ctx context.Context) (token string, expires time.Time, err error)
	// changed reports whether what fetch would read is not what it last read, so
	// that it is to be called without waiting.
	changed() bool
	// close closes idle connections.
	close()
}

func newTokens(g grant, log *slog.Logger) *Tokens {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Tokens{grant: g, log: log, clock: wire.NewClock(log), ctx: ctx, stop: stop}
}

// None reports whether the method is none, so that no token is ever given out.
func (t *Tokens) None() bool { return t.grant == nil }

// Clock is the clock of this machine, as the answers of the authority show it; a client
// with these tokens uses it too. It is nil for the method none.
func (t *Tokens) Clock() *wire.Clock { return t.clock }

// Close ends the request under way, if there is one, and waits for it.
func (t *Tokens) Close() {
	if t.grant != nil {
		t.stop()
		t.wg.Wait()
		t.grant.close()
	}
}

// Token is the cached token or a new one. Between two failed requests it fails
// at once, with the error of the last.
func (t *Tokens) Token(ctx context.Context) (string, error) {
	if t.grant == nil {
		return "", nil
	}
	token, flight, err := t.look()
	if token != "" || err != nil {
		return token, err
	}
	select {
	case <-flight:
	case <-ctx.Done():
		return "", fmt.Errorf("wait for a token: %w", ctx.Err())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return "", t.waiting(time.Now())
	}
	return t.token, nil
}

// look decides what the next caller gets: a token, an error, or the request to
// wait for, which it starts if there is none.
func (t *Tokens) look() (token string, flight <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, changed := time.Now(), t.grant.changed()
	usable := t.usable(now)
	if usable && !changed && !t.due(now) {
		return t.token, nil, nil
	}
	if wait := t.wait(now); wait > 0 && !changed {
		if usable {
			return t.token, nil, nil
		}
		return "", nil, t.waiting(now)
	}
	if t.flight == nil {
		t.takeOff()
	}
	if usable {
		return t.token, nil, nil
	}
	return "", t.flight, nil
}

// usable reports whether the token in hand can be given out.
func (t *Tokens) usable(now time.Time) bool {
	return t.token != "" && !t.refused && (t.expires.IsZero() || now.Before(t.expires))
}

// due reports whether a good token nears its end. One that lives shorter than twice
// refreshEarly is replaced after half its life.
func (t *Tokens) due(now time.Time) bool {
	early := min(refreshEarly, t.expires.Sub(t.got)/2)
	return !t.expires.IsZero() && !now.Before(t.expires.Add(-early))
}

// wait is how long no token may be asked for.
func (t *Tokens) wait(now time.Time) time.Duration {
	wait := t.after.Sub(now)
	if t.refused {
		wait = max(wait, t.forced.Sub(now))
	}
	return wait
}

// waiting is why there is no token for now, and when one is asked for again where
// nothing else brings it about. Of one that the service refused it is what the
// service said, so that a hold keeps its reason while no request is made.
func (t *Tokens) waiting(now time.Time) error {
	if t.err == nil {
		return t.why
	}
	var e *kusto.Error
	if !errors.As(t.err, &e) || e.Token() != kusto.TokenLater {
		return t.err
	}
	told := *e
	told.RetryAfter = max(t.after.Sub(now), time.Millisecond)
	return &told
}

// takeOff starts a request. Its goroutine is started by the caller that asks for a
// token first, ends within grantTimeout or when Close is called, and Close
// waits for it. The context of the caller does not end it: others wait too.
func (t *Tokens) takeOff() {
	landed := make(chan struct{})
	t.flight = landed
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		defer close(landed)
		ctx, cancel := context.WithTimeout(t.ctx, grantTimeout)
		defer cancel()
		token, expires, err := t.grant.fetch(ctx)
		if err == nil && (token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })) {
			err = &kusto.Error{Message: "get token: what was given is no token", Hint: "check the keys under auth"}
		}
		err = t.clock.Blame(err)
		var e *kusto.Error
		if errors.As(err, &e) {
			err = tokenless(e)
		}
		t.land(token, expires, err)
	}()
}

// tokenless marks an error as why there is no token. The error itself is not changed.
func tokenless(e *kusto.Error) *kusto.Error {
	told := *e
	told.NoToken = true
	return &told
}

// land keeps what a request brought.
func (t *Tokens) land(token string, expires time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.flight = nil
	if err != nil {
		if t.err == nil && t.usable(now) { // else those who wait for it tell
			t.log.Warn("token request failed, the current token stays in use", "err", err, "fix", fixOf(err), "expires", t.expires)
		}
		t.err, t.after = err, now.Add(t.pauseAfter(err))
		return
	}
	if t.err != nil {
		t.log.Info("token request succeeded again")
	}
	if t.refused {
		t.forced = now.Add(refreshPause)
	}
	t.token, t.got, t.expires, t.refused, t.err, t.after, t.pause = token, now, expires, false, nil, time.Time{}, 0
}

// pauseAfter is how long no token is asked for after a request that failed. Agents
// that lost their authority at one time do not all come back at one time.
func (t *Tokens) pauseAfter(err error) time.Duration {
	var e *kusto.Error
	if !errors.As(err, &e) || e.Token() != kusto.TokenLater {
		t.pause = 0
		return max(refreshPause, askedPause(err))
	}
	t.pause = min(max(2*t.pause, firstPause), longestPause)
	wait := t.pause - time.Duration(rand.Int64N(int64(t.pause/5)))
	return max(wait, min(askedPause(err), mostAskedPause))
}

func fixOf(err error) string {
	var e *kusto.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return "check the keys under auth"
}

func askedPause(err error) time.Duration {
	var e *kusto.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// Invalidate gives up token, if it is still the one given out, since the service
// refused it with why. The next Token asks for a new one at once, but not twice
// within half a minute; until then it fails with why.
func (t *Tokens) Invalidate(token string, why *kusto.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.grant != nil && token == t.token {
		t.refused, t.why = true, why
	}
}

// ExpiresAt is when the token in hand ends; zero: there is none, or it does
// not tell.
func (t *Tokens) ExpiresAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expires
}
