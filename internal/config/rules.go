package config

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"

	"kusto-agent/internal/format"
	"kusto-agent/internal/rules"
	"kusto-agent/tail"
)

// ruleLists are the keys of an input that hold rules.
var ruleLists = []string{"keep", "drop", "redact"}

// rules checks the keys that select or change records: keep, drop, sample, redact, rename, remove,
// add. at is the path of the input in the file src. If the format or the way of parsing is unknown,
// which was reported before, nothing is checked.
func (l *loader) rules(in *Input, src *source, at string) {
	spec, known := format.Of(in.Format)
	if _, ok := format.ParseOf(in.Parse); !known || !ok {
		return
	}
	in.RedactKeyFile = l.credential(in.RedactKeyFile)
	lists := map[string]int{"keep": len(in.Keep), "drop": len(in.Drop), "sample": 0, "redact": len(in.Redact), "rename": len(in.Rename), "remove": len(in.Remove), "add": len(in.Add)}
	if in.Sample != nil {
		lists["sample"] = 1
	}
	for list, n := range lists {
		switch {
		case n == 0:
		case spec.Ends == format.InBlocks:
			src.bad(join(at, list), "format %s is read in blocks, not in records; leave it out", spec.Format)
		case list == "sample":
			if src.given(join(at, "sample.by")) && in.Sample.By == "" {
				src.bad(join(at, "sample.by"), "empty; give it a value, or leave it out")
			}
		case slices.Contains(ruleLists, list):
			for i := range n {
				refuseEmpty(src, fmt.Sprintf("%s[%d]", join(at, list), i))
			}
		}
	}
	mayHash := func(r rules.Redaction) bool { return r.With == rules.Hash || r.With == "" } // what is missing may be hash
	if in.RedactKeyFile != "" && !src.wrong[join(at, "redact")] && !slices.ContainsFunc(in.Redact, mayHash) {
		src.bad(join(at, "redact_key_file"), "no rule of redact uses it; leave it out, or write a rule with: hash")
	}
	for i := range in.Redact {
		if with := fmt.Sprintf("%s[%d].with", join(at, "redact"), i); !src.given(with) && !src.wrong[with] {
			src.bad(fmt.Sprintf("%s[%d]", join(at, "redact"), i), "with is missing; want what stands there instead, such as with: '***', or with: hash")
		}
	}
	if spec.Ends == format.InBlocks {
		return
	}
	for _, err := range leaves(in.CheckRules()) {
		if key, ok := errors.AsType[*tail.KeyFileError](err); ok {
			src.bad(join(at, "redact_key_file"), "%v", key.Err)
			continue
		}
		var bad *rules.Error
		if !errors.As(err, &bad) || src.wrong[join(at, bad.List)] {
			continue // reported already: an error of the format, or of the whole list of rules
		}
		path := join(at, bad.Path())
		if badSyntax, ok := errors.AsType[*syntax.Error](err); ok {
			src.badWithin(path, bad.Value, faultIn(bad.Value, badSyntax), notRegular(bad.Value, badSyntax))
			continue
		}
		src.bad(path, "%v", bad.Err)
	}
}

// leaves returns the single errors that were joined into err with errors.Join, at any depth; err
// itself if it is a single error, nil for nil.
func leaves(err error) (all []error) {
	switch many, joined := err.(interface{ Unwrap() []error }); {
	case joined:
		for _, err := range many.Unwrap() {
			all = append(all, leaves(err)...)
		}
	case err != nil:
		all = append(all, err)
	}
	return all
}

// refuseEmpty reports keys of a rule, whose path in the file is at, that have an empty value. Such
// a key would count as not given, which changes the meaning of the rule.
func refuseEmpty(src *source, at string) {
	for _, key := range []string{"name", "match", "member", "column", "in", "below", "above", "preset"} {
		p := src.places[join(at, key)]
		if !src.given(join(at, key)) || src.wrong[join(at, key)] {
			continue
		}
		switch {
		case key == "column" && p.written == "0":
			src.bad(join(at, key), "0 is not a column; the first is 1")
		case key == "preset" && !src.given(join(at, key)+"[0]"):
			src.bad(join(at, key), "empty; want what is looked for, such as [email, card], or leave it out")
		case key == "in" && !src.given(join(at, key)+"[0]"):
			src.bad(join(at, key), "empty; want the values that are meant, such as [debug, trace], or leave it out")
		case p.written == "" && key != "in" && key != "preset":
			src.bad(join(at, key), "empty; give it a value, or leave it out")
		}
	}
}
