package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Env looks up an environment variable, as os.LookupEnv does.
type Env func(name string) (value string, ok bool)

// dollar finds $$, a ${} up to its end, and a single dollar sign.
var dollar = regexp.MustCompile(`\$(?:\$|\{[^}]*\}?)?`)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME}, ${NAME:-default}, ${NAME:?why} and $$ in a value, with env to look up
// the variables. Inserted text is not expanded again, and a single $ stays. As in a shell, default
// and why also apply to a variable that is empty. The error says what is wrong with a ${}, or which
// variable is not set.
func expand(text string, env Env) (string, error) {
	var failed error
	text = dollar.ReplaceAllStringFunc(text, func(part string) string {
		inside, isVariable := strings.CutPrefix(part, "${")
		switch {
		case failed != nil || part == "$":
			return part
		case !isVariable:
			return "$"
		case !strings.HasSuffix(inside, "}"):
			failed = errors.New("${ without its }; write $$ for a dollar sign")
			return part
		}
		part, failed = lookup(strings.TrimSuffix(inside, "}"), env)
		return part
	})
	return text, failed
}

// lookup returns what replaces ${inside}: the variable's value, or the default of ${NAME:-default}. A
// variable that is not set and has no default is an error, with the reason of ${NAME:?why}.
func lookup(inside string, env Env) (string, error) {
	name, other, conditional := strings.Cut(inside, ":")
	if !variable.MatchString(name) {
		return "", errors.New("${} holds no name of a variable; want ${NAME}, ${NAME:-default} or ${NAME:?why}, or $$ for a dollar sign")
	}
	if strings.Contains(other, "${") {
		return "", errors.New("a ${} inside another is not replaced; write it out")
	}
	value, ok := env(name)
	switch {
	case !conditional && ok, conditional && value != "":
		return value, nil
	case !conditional:
		return "", fmt.Errorf("variable %s is not set; set it, or give a default as in ${%s:-default}", name, name)
	case strings.HasPrefix(other, "-"):
		return other[1:], nil
	case strings.HasPrefix(other, "?"):
		return "", fmt.Errorf("variable %s is not set: %s", name, other[1:])
	}
	return "", fmt.Errorf("${%s:…} is not known; want ${%s:-default} or ${%s:?why}", name, name, name)
}
