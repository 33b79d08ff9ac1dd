package credential

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// autoGrant tries ways to sign in, one after the other, and keeps the first that
// gives a token: who the agent is must not change while it runs.
type autoGrant struct {
	ways  []namedGrant
	kept  atomic.Pointer[loginGrant]
	lacks []string // ways that are not there, each with why
	none  string   // what to do where there is no way at all
}

type namedGrant struct {
	name string
	*loginGrant
}

// fetch returns a token and its expiry, from the first way to sign in that gives one, and keeps to
// that way from then on. If no way gives a token, the error lists the reason of each way. Its
// status, code and hint are those of the first way that was refused. It is marked as passing
// (Passes), so that it is retried soon, if the authority of some way was out of reach or busy.
func (g *autoGrant) fetch(ctx context.Context) (string, time.Time, error) {
	if kept := g.kept.Load(); kept != nil {
		return kept.fetch(ctx)
	}
	words := slices.Clone(g.lacks)
	away := false         // the authority of some way was out of reach or busy
	var told *kusto.Error // the error of the first way that an authority refused
	for _, way := range g.ways {
		token, expires, err := way.fetch(ctx)
		if err == nil {
			g.kept.Store(way.loginGrant)
			return token, expires, nil
		}
		var e *kusto.Error
		why := err.Error()
		if errors.As(err, &e) {
			why = e.Message
			if told == nil && (e.Status != 0 || e.Code != "") {
				told = e
			}
			// A machine that is not in Azure is no failure that passes.
			away = away || e.Hint != notInAzure && tokenless(e).Token() == kusto.TokenLater
		}
		words = append(words, way.name+": "+reply.Printable(strings.TrimPrefix(why, "get token: "), reply.MaxMessage/4))
	}
	none := &kusto.Error{Code: "no_credentials", Message: "get token: auth.method auto found no way to sign in: " + strings.Join(words, "; "), Hint: g.none}
	if told != nil {
		none.Status, none.Code, none.RetryAfter, none.Timely = told.Status, told.Code, told.RetryAfter, told.Timely
		none.Hint = told.Hint + "; or: " + g.none
	}
	none.Message, none.Passes = reply.Printable(none.Message, reply.MaxMessage), away
	return "", time.Time{}, none
}

// changed reports whether a file that a way to sign in reads, such as a token or a certificate, was
// written since it was last read. Once a way has given a token, only the files of that way count.
func (g *autoGrant) changed() bool {
	if kept := g.kept.Load(); kept != nil {
		return kept.changed()
	}
	return slices.ContainsFunc(g.ways, namedGrant.changed)
}

// close closes the idle connections of all ways.
func (g *autoGrant) close() {
	for _, way := range g.ways {
		way.close()
	}
}
