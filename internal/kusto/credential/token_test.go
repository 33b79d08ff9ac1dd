package credential

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

// stubGrant gives numbered tokens of a life, or an error, after a while.
type stubGrant struct {
	mu    sync.Mutex
	calls int
	life  time.Duration
	err   error
	takes time.Duration
	fresh bool
}

func (g *stubGrant) fetch(ctx context.Context) (string, time.Time, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	select {
	case <-time.After(g.takes):
	case <-ctx.Done():
		return "", time.Time{}, ctx.Err()
	}
	if g.err != nil {
		return "", time.Time{}, g.err
	}
	return strings.Repeat("t", g.calls), time.Now().Add(g.life), nil
}

func (g *stubGrant) changed() bool { return g.fresh }
func (g *stubGrant) close()        {}

// inTime runs f with a cache over a grant, under a clock of its own.
func inTime(t *testing.T, g *stubGrant, f func(t *testing.T, tokens *Tokens, want func(token string, calls int))) {
	synctest.Test(t, func(t *testing.T) {
		tokens := newTokens(g, nil)
		defer tokens.Close()
		f(t, tokens, func(want string, calls int) {
			t.Helper()
			got, err := tokens.Token(t.Context())
			synctest.Wait() // for a request in the background that has nothing to wait for
			if got != want || (err == nil) != (want != "") || g.calls != calls {
				t.Errorf("got %q, %v after %d requests; want %q after %d", got, err, g.calls, want, calls)
			}
		})
	})
}

func TestTokenIsCachedAndRefreshedEarly(t *testing.T) {
	inTime(t, &stubGrant{life: time.Hour}, func(t *testing.T, tokens *Tokens, want func(string, int)) {
		want("t", 1)
		if got := time.Until(tokens.ExpiresAt()); got != time.Hour {
			t.Errorf("expires in %s", got)
		}
		time.Sleep(54 * time.Minute)
		want("t", 1)
		time.Sleep(time.Minute)
		want("t", 2) // the old one is given out while the new is fetched
		want("tt", 2)
	})
}

func TestShortLivedToken(t *testing.T) {
	inTime(t, &stubGrant{life: 2 * time.Second}, func(t *testing.T, _ *Tokens, want func(string, int)) {
		want("t", 1)
		want("t", 1)
		time.Sleep(time.Second)
		want("t", 2)
		want("tt", 2)
		time.Sleep(time.Minute) // over
		want("ttt", 3)
	})
}

// A token that is over by the clock of this machine may be good by that of the service, which alone
// decides. It is used, and the authority is not asked for each request.
func TestTokenThatIsOverWhenItComes(t *testing.T) {
	for _, life := range []time.Duration{-24 * time.Hour, -time.Second, time.Nanosecond} {
		inTime(t, &stubGrant{life: life}, func(t *testing.T, _ *Tokens, want func(string, int)) {
			for range 50 {
				want("t", 1)
			}
			time.Sleep(time.Second)
			want("t", 2)
			want("tt", 2)
		})
	}
}

func TestOneTokenRequestForAll(t *testing.T) {
	g := &stubGrant{life: time.Hour, takes: time.Second}
	synctest.Test(t, func(t *testing.T) {
		tokens := newTokens(g, nil)
		defer tokens.Close()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if got, err := tokens.Token(t.Context()); got != "t" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		wg.Wait()
		if g.calls != 1 {
			t.Errorf("%d requests", g.calls)
		}
	})
}

func TestCallerNeedNotWaitForAToken(t *testing.T) {
	g := &stubGrant{life: time.Hour, takes: 10 * time.Second}
	inTime(t, g, func(t *testing.T, tokens *Tokens, want func(string, int)) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := tokens.Token(ctx)
		if e, _ := errors.AsType[*kusto.Error](err); !errors.Is(err, context.DeadlineExceeded) || e.Token() != kusto.TokenLater {
			t.Errorf("got %v, want that there is none yet", err)
		}
		want("t", 1) // the request went on for the others
	})
}

func TestFailedTokenRequestsArePaced(t *testing.T) {
	g := &stubGrant{life: time.Hour, err: errors.New("down")}
	inTime(t, g, func(t *testing.T, _ *Tokens, want func(string, int)) {
		want("", 1)
		want("", 1)
		time.Sleep(refreshPause - time.Second)
		want("", 1)
		time.Sleep(time.Second)
		want("", 2)
		g.err = &kusto.Error{RetryAfter: 2 * time.Minute}
		time.Sleep(refreshPause)
		want("", 3)
		time.Sleep(time.Minute)
		want("", 3)
		g.err = nil
		time.Sleep(time.Minute)
		want("tttt", 4)
	})
}

// TestAuthorityOutOfReachIsAskedSoon: after 500 ms, then ever rarer, and so that a
// token is there 15 s after the authority is.
func TestAuthorityOutOfReachIsAskedSoon(t *testing.T) {
	g := &stubGrant{life: time.Hour, err: authorityOutOfReach(errors.New("down"))}
	inTime(t, g, func(t *testing.T, tokens *Tokens, want func(string, int)) {
		want("", 1)
		want("", 1)
		began := time.Now()
		for calls := 2; calls < 10; calls++ {
			_, err := tokens.Token(t.Context())
			wait := kustotest.ErrorOf(err).RetryAfter
			if most := min(firstPause<<(calls-2), longestPause); wait > most || wait < most*4/5 || kustotest.ErrorOf(err).Token() != kusto.TokenLater {
				t.Errorf("after %d requests: %v, %v", calls-1, wait, err)
			}
			time.Sleep(wait - time.Nanosecond)
			want("", calls-1)
			time.Sleep(time.Nanosecond)
			want("", calls)
		}
		if took := time.Since(began); took > time.Minute+15*time.Second {
			t.Errorf("9 requests took %v", took)
		}
		g.err = &kusto.Error{Status: 429, RetryAfter: 2 * time.Minute}
		time.Sleep(longestPause)
		want("", 10)
		time.Sleep(mostAskedPause - time.Nanosecond)
		want("", 10)
		g.err = nil
		time.Sleep(time.Nanosecond)
		want(strings.Repeat("t", 11), 11)
		g.err = authorityOutOfReach(errors.New("down"))
		time.Sleep(time.Hour)
		want("", 12)
		time.Sleep(firstPause)
		want("", 13) // the pauses begin anew
	})
}

func TestGoodTokenOutlivesFailedRefresh(t *testing.T) {
	g := &stubGrant{life: time.Hour}
	inTime(t, g, func(t *testing.T, _ *Tokens, want func(string, int)) {
		want("t", 1)
		g.err = errors.New("down")
		time.Sleep(56 * time.Minute)
		want("t", 2)
		want("t", 2)
		time.Sleep(refreshPause)
		want("t", 3)
		time.Sleep(4 * time.Minute)
		want("", 4)
		g.err = nil
		time.Sleep(refreshPause)
		want("ttttt", 5)
	})
}

// errRefused is what the service says of a token.
var errRefused = &kusto.Error{Status: 401, Message: "Unauthorized"}

func TestRefusedToken(t *testing.T) {
	inTime(t, &stubGrant{life: time.Hour}, func(t *testing.T, tokens *Tokens, want func(string, int)) {
		want("t", 1)
		tokens.Invalidate("another", errRefused)
		want("t", 1)
		tokens.Invalidate("t", errRefused)
		tokens.Invalidate("t", errRefused)
		want("tt", 2)                      // at once, the first time
		tokens.Invalidate("t", errRefused) // a latecomer: it is not the token given out any more
		want("tt", 2)
		tokens.Invalidate("tt", errRefused)
		want("", 2)
		if _, err := tokens.Token(t.Context()); err != errRefused {
			t.Errorf("says %v, want what the service said", err)
		}
		time.Sleep(refreshPause)
		want("ttt", 3)
	})
}

// A service that refuses every token makes few token requests.
func TestRefusedForever(t *testing.T) {
	g := &stubGrant{life: time.Hour}
	inTime(t, g, func(t *testing.T, tokens *Tokens, _ func(string, int)) {
		for range 3600 {
			if token, err := tokens.Token(t.Context()); err == nil {
				tokens.Invalidate(token, errRefused)
			}
			time.Sleep(time.Second)
		}
		if most := int(time.Hour/refreshPause) + 2; g.calls > most {
			t.Errorf("%d token requests in an hour, want %d at most", g.calls, most)
		}
	})
}

func TestChangedTokenIsReadAtOnce(t *testing.T) {
	g := &stubGrant{life: time.Hour, err: errors.New("no file")}
	inTime(t, g, func(t *testing.T, _ *Tokens, want func(string, int)) {
		want("", 1)
		g.err, g.fresh = nil, true
		want("tt", 2)
	})
}

func TestWhatIsNoTokenIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, bad := range []string{"", "a b", "a\r\nX: y", "ä"} {
			tokens := newTokens(fixedGrant(bad), nil)
			if got, err := tokens.Token(t.Context()); got != "" || err == nil || strings.Contains(err.Error(), "X:") {
				t.Errorf("%q: got %q, %v", bad, got, err)
			}
			tokens.Close()
		}
	})
}

type fixedGrant string

func (g fixedGrant) fetch(context.Context) (string, time.Time, error) {
	return string(g), time.Time{}, nil
}
func (fixedGrant) changed() bool { return false }
func (fixedGrant) close()        {}

func TestCloseEndsTheRequestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := newTokens(&stubGrant{takes: time.Hour}, nil)
		done := make(chan error)
		go func() { // ends when Close has ended the request
			_, err := tokens.Token(t.Context())
			done <- err
		}()
		synctest.Wait()
		tokens.Close()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNoToken(t *testing.T) {
	var none Tokens
	if got, err := none.Token(t.Context()); got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	none.Invalidate("", errRefused)
	none.Close()
	if !none.ExpiresAt().IsZero() {
		t.Error("it expires")
	}
}

// A failed request for a token is told here only where nobody waits for it:
// whoever waits gets the error, and tells it.
func TestFailedRefreshIsToldOnce(t *testing.T) {
	var said bytes.Buffer
	g := &stubGrant{life: time.Hour}
	inTime(t, g, func(t *testing.T, tokens *Tokens, want func(string, int)) {
		tokens.log = slog.New(slog.NewTextHandler(&said, nil))
		count := func(n int) {
			t.Helper()
			if got := strings.Count(said.String(), "token request failed"); got != n {
				t.Errorf("told %d times, want %d:\n%s", got, n, said.String())
			}
		}
		g.err = &kusto.Error{Message: "down", Hint: "what to do"}
		want("", 1)
		count(0)
		g.err = nil
		time.Sleep(refreshPause)
		want("tt", 2)
		g.err = &kusto.Error{Message: "down", Hint: "what to do"}
		time.Sleep(56 * time.Minute)
		want("tt", 3)
		count(1)
		time.Sleep(refreshPause)
		want("tt", 4)
		count(1)
		if !strings.Contains(said.String(), "what to do") {
			t.Errorf("no fix in\n%s", said.String())
		}
	})
}
