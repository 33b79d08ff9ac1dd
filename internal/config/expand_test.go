package config

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := environ("NAME", "value", "EMPTY", "", "DOLLAR", "${NAME} $$ $")
	f := func(in, want string) {
		t.Helper()
		if got, err := expand(in, env); err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	f("", "")
	f("plain", "plain")
	f("${NAME}", "value")
	f("a${NAME}b${NAME}c", "avaluebvaluec")
	f("${EMPTY}", "")
	f("${EMPTY:-default}", "default")
	f("${UNSET:-default}", "default")
	f("${UNSET:-}", "")
	f("${UNSET:-a:-b}", "a:-b")
	f("${NAME:-default}", "value")
	f("${NAME:?why}", "value")
	f("$$", "$")
	f("$${NAME}", "${NAME}")
	f("$$$${NAME}", "$${NAME}")
	f("$$${NAME}", "$value")
	f(`^\d{4}$`, `^\d{4}$`)
	f("$NAME costs 5$", "$NAME costs 5$")
	f("{host}-{{x}}", "{host}-{{x}}")
	f("${DOLLAR}", "${NAME} $$ $") // not looked at again
}

func TestExpandRefuses(t *testing.T) {
	env := environ("EMPTY", "")
	f := func(in, want string) {
		t.Helper()
		if got, err := expand(in, env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expand(%q) = %q, %v; want an error with %q", in, got, err, want)
		}
	}
	f("${UNSET}", "variable UNSET is not set")
	f("${UNSET:?ask the admins}", "variable UNSET is not set: ask the admins")
	f("${EMPTY:?why}", "variable EMPTY is not set: why")
	f("${UNSET", "without its }")
	f("${}", "no name")
	f("${1A}", "no name")
	f("${A B}", "no name")
	f("${A-b}", "no name")
	f("${A:b}", "not known")
	f("${A:-${B}}", "inside another")
}
