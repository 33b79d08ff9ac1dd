package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// TestError: the first exit code from outside holds, and its text is that of its error.
func TestError(t *testing.T) {
	t.Parallel()
	f := func(err error, code int, text string) {
		t.Helper()
		var ended *Error
		if !errors.As(err, &ended) || ended.Code != code || err.Error() != text {
			t.Errorf("%v: %+v, want %d and %q", err, ended, code, text)
		}
	}
	inner := With(Refused, fs.ErrPermission)
	f(inner, Refused, "permission denied")
	f(With(Failed, fmt.Errorf("at x: %w", inner)), Failed, "at x: permission denied")
	f(fmt.Errorf("at x: %w", inner), Refused, "at x: permission denied")
	f(Silently(Config), Config, "exit 78")
	f(Usagef("--x %q: want %w", "y", fs.ErrInvalid), Usage, `--x "y": want invalid argument`)
	if !errors.Is(inner, fs.ErrPermission) || !errors.Is(Usagef("%w", fs.ErrInvalid), fs.ErrInvalid) {
		t.Error("what it is of is not known")
	}
	if err := Reading(fs.ErrNotExist); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--config") {
		t.Error(err)
	}
	if err := Reading(fs.ErrPermission); !strings.Contains(err.Error(), "run it as root") {
		t.Error(err)
	}
}

// TestWords: lines stay lines, and what could steer a terminal is quoted.
func TestWords(t *testing.T) {
	t.Parallel()
	f := func(text, want string) {
		t.Helper()
		if got := Words(errors.New(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	f("plain", "plain")
	f("one\n\ttwo ü", "one\n\ttwo ü")
	f("one\ntwo \x1b[2J", "one\n\"two \\x1b[2J\"")
	f("\xff", `"\xff"`)
	f("\u202e", `"\u202e"`)
}

// TestDefault: an exit code that an error has stays, and what is no error stays none.
func TestDefault(t *testing.T) {
	t.Parallel()
	for _, first := range []func(error) error{func(err error) error { return Default(Config, err) }, Reading} {
		var ended *Error
		if inner := fmt.Errorf("at x: %w", With(Refused, fs.ErrNotExist)); first(inner) != inner || first(nil) != nil {
			t.Errorf("%v and %v", first(inner), first(nil))
		}
		if err := first(fs.ErrNotExist); !errors.As(err, &ended) || !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}
