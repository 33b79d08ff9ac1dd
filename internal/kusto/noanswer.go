package kusto

import (
	"context"
	"errors"
)

// noAnswer is the error of a request that got no answer. The token is taken out of it.
func noAnswer(ctx context.Context, err error, secret string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	e := &Error{Message: printable(redact(err.Error(), secret), maxMessage), Hint: netHint(err), cause: err}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Message, e.Hint = "no answer in time", "give it more time with a longer timeout, or ask for less"
		e.cause = ctx.Err()
	}
	return e
}
