package credential

import (
	"context"
	"errors"
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
	// leastLife is how long a token counts as good whatever is said of its end. The clock of
	// this machine may be wrong, and the service refuses a token that is over.
	leastLife = 2 * time.Second
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

// newTokens returns an empty cache for the tokens of g. With a nil logger nothing is logged. The
// caller must call Close.
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

// Close cancels a running token request, waits for its end, and closes idle connections.
func (t *Tokens) Close() {
	if t.grant != nil {
		t.stop()
		t.wg.Wait()
		t.grant.close()
	}
}

// Token returns the cached token, or waits for a new one until ctx ends. While the pause after a
// failed request lasts it returns the error of that request at once. The token is "" only for the
// method none.
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
		return "", &kusto.Error{
			NoToken: true, Message: "get token: no answer yet", Cause: ctx.Err(),
			Hint: "whoever gives the token is slow or out of reach: check auth.authority, and the network and proxy to it",
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return "", t.waiting(time.Now())
	}
	return t.token, nil
}

// look returns what a caller of Token gets: a token, or an error. If both are empty, it returns the
// channel that is closed when the running token request ends. It starts a request if the token is
// missing, refused or about to expire, unless one runs or the pause after a failure lasts. If the
// file with the secret has changed, it starts one at once.
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

// usable reports whether the cached token can be given out: it was not refused and has not expired.
// The caller holds mu.
func (t *Tokens) usable(now time.Time) bool {
	return t.token != "" && !t.refused && (t.expires.IsZero() || now.Before(t.expires))
}

// due reports whether the cached token is to be replaced because it expires soon: in refreshEarly, or
// after half its life if it lives shorter than twice that. The caller holds mu.
func (t *Tokens) due(now time.Time) bool {
	early := min(refreshEarly, t.expires.Sub(t.got)/2)
	return !t.expires.IsZero() && !now.Before(t.expires.Add(-early))
}

// wait returns how long no token may be requested, after a failure or after the service refused a
// token; 0 or less if one may be requested now. The caller holds mu.
func (t *Tokens) wait(now time.Time) time.Duration {
	wait := t.after.Sub(now)
	if t.refused {
		wait = max(wait, t.forced.Sub(now))
	}
	return wait
}

// waiting returns the error for callers while there is no token. After a failed token request it is
// the error of that request; if a retry can help, RetryAfter is the time until the next request. If
// the service refused the token, it is the error of the service, so that callers report the
// original reason. The caller holds mu.
func (t *Tokens) waiting(now time.Time) error {
	if t.err == nil {
		return t.why
	}
	e, _ := errors.AsType[*kusto.Error](t.err)
	if e.Token() != kusto.TokenLater {
		return t.err
	}
	told := *e
	told.RetryAfter = max(t.after.Sub(now), time.Millisecond)
	return &told
}

// takeOff starts a goroutine that requests a token and stores the result. It ends within grantTimeout,
// or when Close is called, which waits for it. It does not end with the context of the caller, since
// others wait for the same token. The caller holds mu.
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
		if e, ok := errors.AsType[*kusto.Error](err); ok {
			err = tokenless(e)
		}
		t.land(token, expires, err)
	}()
}

// tokenless returns a copy of e that is marked as the reason why there is no token.
func tokenless(e *kusto.Error) *kusto.Error {
	told := *e
	told.NoToken = true
	return &told
}

// land stores the result of a token request: the token with its expiry, or the error and the pause
// until the next request. A failure is logged only if the cached token is still usable; otherwise
// the callers of Token get the error and report it.
func (t *Tokens) land(token string, expires time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.flight = nil
	if err != nil {
		if t.err == nil && t.usable(now) { // otherwise the waiting callers get the error
			t.log.Warn("token request failed, will retry; the current token stays in use", "err", err, "fix", fixOf(err), "expires", t.expires)
		}
		t.err, t.after = err, now.Add(t.pauseAfter(err))
		return
	}
	if t.err != nil {
		t.log.Info("token request succeeded again")
	}
	if least := now.Add(leastLife); !expires.IsZero() && expires.Before(least) {
		expires = least
	}
	if t.refused { // if the service refuses this token too, the next request waits
		t.forced = now.Add(refreshPause)
	}
	t.token, t.got, t.expires, t.refused, t.err, t.after, t.pause = token, now, expires, false, nil, time.Time{}, 0
}

// pauseAfter returns how long no token is requested after the failure err. If the authority is out
// of reach or busy, the pause doubles each time, with jitter, so that agents do not all return at
// the same moment. After a refusal it is refreshPause. A longer Retry-After of the authority
// counts, in the first case up to mostAskedPause. The caller holds mu.
func (t *Tokens) pauseAfter(err error) time.Duration {
	var asked time.Duration // the Retry-After of the authority
	e, ok := errors.AsType[*kusto.Error](err)
	if ok {
		asked = e.RetryAfter
	}
	if e.Token() != kusto.TokenLater {
		t.pause = 0
		return max(refreshPause, asked)
	}
	t.pause = min(max(2*t.pause, firstPause), longestPause)
	wait := t.pause - time.Duration(rand.Int64N(int64(t.pause/5)))
	return max(wait, min(asked, mostAskedPause))
}

// fixOf returns the hint of an error, for the log attribute fix.
func fixOf(err error) string {
	if e, ok := errors.AsType[*kusto.Error](err); ok {
		return e.Hint
	}
	return "check the keys under auth"
}

// Invalidate drops a token that the service refused with the error why, unless another token has
// replaced it already. The next call of Token requests a new one at once. If the service refuses
// that one too, Token returns why until refreshPause has passed since it was fetched.
func (t *Tokens) Invalidate(token string, why *kusto.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.grant != nil && token == t.token {
		t.refused, t.why = true, why
	}
}

// ExpiresAt returns when the cached token expires; zero if there is none or it does not say.
func (t *Tokens) ExpiresAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expires
}
