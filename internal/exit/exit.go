// Package exit says how a command ends: each exit code has one meaning, which scripts
// rely on, and what is printed of an error cannot steer a terminal.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The exit codes of the program.
const (
	Failed      = 1   // a check or an audit failed, or a run-time error
	Usage       = 64  // the command line is wrong
	Unreachable = 69  // the service was out of reach
	Refused     = 77  // a token or a route was refused (401, 403), or there is no token
	Config      = 78  // the configuration is wrong
	Interrupted = 130 // somebody stopped it
)

// Error ends the program with a code of its own. With no error in it,
// everything worth saying was said.
type Error struct {
	Code int
	Err  error // nil: nothing is printed
}

// Error returns the text of e.Err, or "exit" and the code if e.Err is nil.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// With makes an error end the program with a code.
func With(code int, err error) error { return &Error{code, err} }

// Default makes err end the program with a code, unless it has one already. nil stays nil.
func Default(code int, err error) error {
	var ended *Error
	if err == nil || errors.As(err, &ended) {
		return err
	}
	return With(code, err)
}

// Silently ends the program with a code, for everything worth saying was said.
func Silently(code int) error { return &Error{Code: code} }

// Usagef makes an error of the command line.
func Usagef(format string, args ...any) error {
	return With(Usage, fmt.Errorf(format, args...))
}

// Reading returns err, an error of reading the state of the agent on disk, with exit code 1 and,
// for a missing folder or permission, with what to do. nil and an error that has an exit code stay as
// they are.
func Reading(err error) error { return ReadingFrom("", err) }

// ReadingFrom is Reading from a folder that the flag names, such as --dir; "": the configuration does.
func ReadingFrom(flag string, err error) error {
	var ended *Error
	switch {
	case err == nil, errors.As(err, &ended):
		return err
	case errors.Is(err, fs.ErrNotExist) && flag != "":
		err = fmt.Errorf("%w; name another folder with %s", err, flag)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w; is it another state_dir, or is $STATE_DIRECTORY set for the agent? Name its configuration with --config, or set the variable here too", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w; run it as root or as the agent's user", err)
	}
	return With(Failed, err)
}

// Words returns the text of err for a terminal: a line with control characters, which can come from
// a file name, is quoted. Line ends stay.
func Words(err error) string {
	all := strings.Split(err.Error(), "\n")
	for i, line := range all {
		steers := func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }
		if !utf8.ValidString(line) || strings.ContainsFunc(line, steers) {
			all[i] = strconv.Quote(line)
		}
	}
	return strings.Join(all, "\n")
}
