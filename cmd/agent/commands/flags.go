package commands

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kusto-agent/internal/units"
)

// durationValue is a flag that holds a duration in the form of the configuration, such as 500ms, 1h30m
// or 7d, which is never negative.
type durationValue time.Duration

// durationVar adds a flag for a duration to f. Its value is stored in d, and is value where the flag
// is not given.
func durationVar(f *pflag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	f.Var((*durationValue)(d), name, usage)
}

// Set takes the text of the command line.
func (v *durationValue) Set(text string) error {
	d, err := units.ParseDuration(text)
	if err == nil {
		*v = durationValue(d)
	}
	return err
}

// String returns the duration as Set takes it; 0 has no unit, which pflag takes for no default.
func (v *durationValue) String() string {
	if *v == 0 {
		return "0"
	}
	return units.Duration(*v).String()
}

// Type returns what the help calls the value.
func (v *durationValue) Type() string { return "duration" }

// countValue is a flag that holds a whole number which is not negative.
type countValue int

// countVar adds a flag for a number that is not negative to f. Its value is stored in n, and is value
// where the flag is not given.
func countVar(f *pflag.FlagSet, n *int, name string, value int, usage string) {
	*n = value
	f.Var((*countValue)(n), name, usage)
}

var errCount = errors.New("want a whole number, 0 or more")

// Set takes the text of the command line.
func (v *countValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || strings.HasPrefix(text, "-") {
		return errCount
	}
	*v = countValue(n)
	return nil
}

func (v *countValue) String() string { return strconv.Itoa(int(*v)) }

// Type returns what the help calls the value.
func (v *countValue) Type() string { return "int" }

// plainFlagError returns err, of parsing flags, in words that name no type or function of Go.
func plainFlagError(err error) error {
	var value *pflag.InvalidValueError
	var none *pflag.ValueRequiredError
	switch {
	case errors.As(err, &value):
		flag, cause := value.GetFlag(), value.Unwrap()
		switch flag.Value.Type() {
		case "bool":
			cause = errors.New("want true or false")
		case "stringToString":
			cause = errors.New("want name=value")
		}
		return fmt.Errorf("--%s %q: %w", flag.Name, value.GetValue(), cause)
	case errors.As(err, &none):
		what, _ := pflag.UnquoteUsage(none.GetFlag())
		return fmt.Errorf("--%s needs a value: %s", none.GetFlag().Name, what)
	}
	return err
}

// What cobra says of a command line, in its words.
var (
	exclusiveFlags = regexp.MustCompile(`^if any flags in the group \[([^]]+)\] are set none of the others can be`)
	requiredFlags  = regexp.MustCompile(`^required flag\(s\) "(.+)" not set$`)
	mostArguments  = regexp.MustCompile(`^accepts at most (\d+) arg\(s\), received (\d+)$`)
	unknownCommand = regexp.MustCompile(`^unknown command ("(?:[^"\\]|\\.)*") for "[^"]*"(?:\n\nDid you mean this\?\n((?:\t.*\n)+))?`)
)

// plainUsage returns err, which cobra has of the command line of cmd, in one line of plain words.
func plainUsage(cmd *cobra.Command, err error) error {
	text := err.Error()
	if m := exclusiveFlags.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("--%s exclude each other: give one of them", strings.Join(strings.Fields(m[1]), " and --"))
	}
	if m := requiredFlags.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("--%s is missing", strings.ReplaceAll(m[1], `", "`, " and --"))
	}
	if m := mostArguments.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("want at most %s argument, and got %s", m[1], m[2])
	}
	m := unknownCommand.FindStringSubmatch(text)
	switch {
	case m == nil:
		return err
	case !cmd.HasSubCommands():
		return fmt.Errorf("%s takes no argument, and got %s", cmd.CommandPath(), m[1])
	}
	text = fmt.Sprintf("unknown command %s for %q", m[1], cmd.CommandPath())
	if names := strings.Fields(m[2]); len(names) > 0 {
		text += "; similar: " + strings.Join(names, ", ")
	}
	return errors.New(text)
}
