package check

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"kusto-agent/internal/config"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/rules"
	"kusto-agent/internal/units"
)

// rules checks the settings of each input that filter, edit and parse records: whether they
// contradict each other or the mapping, and what they do with records of the newest files.
func (r *run) rules(ctx context.Context) {
	for i := range r.cfg.Inputs {
		in := &r.cfg.Inputs[i]
		r.contradictions(in)
		if v := r.views[in.Name]; v != nil && v.mapped {
			v.reshaped(fmt.Sprintf("inputs[%d]", i))
		}
		tried, err := pipeline.TryOut(ctx, in) // nil: the input has no rules and no patterns
		switch {
		case err != nil:
			r.add(Finding{ID: "rules", Severity: Warning, Input: in.Name, What: "rules and patterns were not tried: " + err.Error(), Fix: "see that its files can be read\n" + r.previewOf(in)})
		case tried != nil:
			r.tried(in, tried)
		}
	}
}

// previewOf is the command that shows what rules and patterns do.
func (r *run) previewOf(in *config.Input) string {
	return "kusto-agent preview " + config.Quoted(in.Name) + " --before-after --config " + config.Quoted(r.Path)
}

// tried adds findings on a trial of the rules and patterns of an input with records of its newest
// files. It warns if no record is in the form that the input expects, of slow expressions, and of
// rules that match nothing or never act, since others come before them.
func (r *run) tried(in *config.Input, t *pipeline.Tryout) {
	of := fmt.Sprintf("%s of the newest %s", units.Counted(t.Records, "record"), units.Counted(t.Files, "file"))
	warn := func(id, key, fix, format string, args ...any) {
		r.add(Finding{ID: id, Severity: Warning, Input: in.Name, Where: key, What: fmt.Sprintf(format, args...), Fix: fix + "\n" + r.previewOf(in)})
	}
	how := "parse: " + in.Parse
	if in.Parse == "docker" || in.Parse == "cri" {
		how = "inner: " + in.Inner
	}
	if t.Records > 0 && t.Misfits == t.Records { // no record is in the form that parse or inner expects
		warn("rules.parse", "", "see how the records are, and what is told of them", "none of %s is as %s says", of, how)
	}
	for _, a := range t.Asked {
		if why := slow(&a); why != "" {
			measured := ""
			if a.Rate > 0 {
				measured = fmt.Sprintf("; here it was matched with about %d MB of records a second", max(a.Rate/1e6, 1))
			}
			warn("rules.slow", a.Key, "write it in a simpler way, or ask another rule before it", "the expression is slow: %s%s", why, measured)
		}
		if t.Records == 0 || a.Key == "multiline.start" { // that pattern matches lines, not records
			continue
		}
		name := ""
		if a.Name != "" {
			name = " (" + a.Name + ")"
		}
		switch {
		case a.Holds == 0 && a.NoMember:
			warn("rules.nothing", a.Key, "look at the letter case of its member, and at the path that leads there", "no record has a value at its member, of %s%s", of, name)
		case a.Holds == 0 && a.Expression != "":
			warn("rules.nothing", a.Key, "look at the expression, unless what it is for is rare", "it matches none of %s%s", of, name)
		case a.Holds == 0:
			r.ok("rules.nothing", in.Name, a.Key, "it holds of none of %s%s", of, name)
		case a.Acts == 0 && a.Before != "":
			warn("rules.shadowed", a.Key, "put it first, or leave it out", "it never acts: it holds of %d of %s, and all of those are left out before it, most by %s%s", a.Holds, of, a.Before, name)
		case a.Acts == 0:
			warn("rules.shadowed", a.Key, "leave it out, or put it first", "it never acts: it holds of %d of %s, and one before it holds of each of those%s", a.Holds, of, name)
		}
	}
	what := of + " tried"
	if len(t.Asked) > 0 {
		what = fmt.Sprintf("%s tried on %s", units.Counted(len(t.Asked), "condition"), of)
	}
	if t.Misfits > 0 && t.Misfits < t.Records {
		what += fmt.Sprintf("; %d are not as %s says", t.Misfits, how)
	}
	r.ok("rules", in.Name, "", "%s", what)
}

// mostInstructions is how large the program of an expression may be before it is told to
// be slow. The engine of Go keeps the fast ways of matching for those of up to 500 or
// 1000 instructions, and the time for a byte grows with them beyond.
const mostInstructions = 500

// slow returns why the regular expression of a condition or pattern takes long to match, by its
// form alone; "" if it does not. A pattern (by which parse: regex divides a line) is also slow if
// it does not begin with ^.
func slow(a *pipeline.Asked) string {
	if a.Expression == "" {
		return ""
	}
	tree, err := syntax.Parse(a.Expression, syntax.Perl)
	if err != nil {
		return ""
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return ""
	}
	first := tree // the first part of the expression
	for first.Op == syntax.OpConcat && len(first.Sub) > 0 {
		first = first.Sub[0]
	}
	repeats := first.Op == syntax.OpStar || first.Op == syntax.OpPlus
	switch pattern := strings.HasPrefix(a.Key, "pattern"); {
	case len(prog.Inst) > mostInstructions:
		return fmt.Sprintf("it makes a program of %d instructions, and up to %d are fast; counted repeats such as {1,200} are copied as often", len(prog.Inst), mostInstructions)
	case pattern && first.Op != syntax.OpBeginText:
		return "it does not begin with ^, so that a line which does not match is tried at each of its characters"
	case !pattern && repeats && (first.Sub[0].Op == syntax.OpAnyCharNotNL || first.Sub[0].Op == syntax.OpAnyChar):
		return "it begins with " + map[bool]string{true: ".*", false: ".+"}[first.Op == syntax.OpStar] + ", which says nothing, since a match is looked for anywhere, and is tried at every character"
	}
	return ""
}

// contradictions adds warnings for conditions of keep and drop that no record can meet, and for
// conditions that repeat an earlier one of the same list.
func (r *run) contradictions(in *config.Input) {
	warn := func(key, fix, format string, args ...any) {
		r.add(Finding{ID: "rules.never", Severity: Warning, Input: in.Name, Where: key, What: fmt.Sprintf(format, args...), Fix: fix})
	}
	each := func(list string, all []rules.Condition) {
		for i, c := range all {
			key := fmt.Sprintf("%s[%d]", list, i)
			if why := impossible(&c); why != "" {
				warn(key, "change it, or make two rules of it", "it can hold of no record: %s", why)
			}
			if n := slices.IndexFunc(all[:i], func(o rules.Condition) bool { return reflect.DeepEqual(o, c) }); n >= 0 {
				warn(key, "leave it out", "it asks what %s[%d] asks before it", list, n)
			}
		}
	}
	each("keep", in.Keep)
	var drop []rules.Condition
	for _, d := range in.Drop {
		drop = append(drop, d.Condition)
	}
	each("drop", drop)
}

// impossible returns why no value can meet a condition; "" if a value can. No value can if the
// limits below and above exclude each other, or if none of the values listed in the condition (in)
// meets the rest of it.
func impossible(c *rules.Condition) string {
	below, noBelow := strconv.ParseFloat(c.Below, 64)
	above, noAbove := strconv.ParseFloat(c.Above, 64)
	if noBelow == nil && noAbove == nil && below <= above {
		return fmt.Sprintf("no number is below %s and above %s", c.Below, c.Above)
	}
	if len(c.In) == 0 {
		return ""
	}
	re, err := regexp.Compile(c.Match)
	if err != nil {
		return ""
	}
	for _, value := range c.In {
		n, bad := strconv.ParseFloat(value, 64)
		isIn := (noBelow != nil || bad == nil && n < below) && (noAbove != nil || bad == nil && n > above)
		if isIn && re.MatchString(value) {
			return ""
		}
	}
	return "none of the values of in is as the rest of it says"
}
