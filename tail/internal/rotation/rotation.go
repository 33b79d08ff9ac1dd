// Package rotation promises that a file which rotation has moved to a name that no pattern matches,
// before anybody had opened it, is found by the file that was rotated before it: by its name, by
// when it was made, and by what it holds.
//
// It decides only: callers list folders, look at files, and hand in what they found.
package rotation

import (
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"kusto-agent/internal/compressed"
)

// Gone is a file that has left its path. The others are looked for beside it.
type Gone struct {
	Name string // that it had
	// Now is its name in the same folder, or that of a compressed copy of it; empty: it is not there.
	// It shows the form of the names that rotation gives.
	Now string
	// Born is when it was made, and Seen when a scan has last found it at its path, in ns; 0: not known.
	Born, Seen int64
	// Written is when its bytes were changed last, in ns; 0: not known. What was rotated after it was
	// written to later: that counts where the file system does not tell when files were made.
	Written int64
	// Replaced says that its path is a link which leads elsewhere by now, and that no pattern matches
	// Name where it led: the file that was made last there still has that name.
	Replaced bool
	// Kept says that the file has its name still: its path was a link to it, which leads elsewhere by
	// now. Others to which the link led have names of the same form.
	Kept bool
	// Empty says that it held nothing when the journal last knew of it, so that nothing shows which compressed
	// file is a copy of it but the name.
	Empty bool
	// Deleted says that it was deleted while it was read: what is compressed of others was read too.
	Deleted bool
	// Lacks reports whether a file of this name would have been read where the gone one was, and none
	// is known. Nil: that is said of all.
	Lacks func(name string) bool
}

// Beside is a file in the folder of one that is gone.
type Beside struct {
	Name    string
	Born    int64 // when it was made, in ns; 0: not known
	Written int64 // when its bytes were changed last, in ns
	// Elsewhere says that exclude leaves it out, or that another input reads it.
	Elsewhere bool
	Known     bool // it is being read, or remembered
	Held      Held
}

// Held is what is known of the bytes of a file.
type Held uint8

// What may be known.
const (
	NotCompared Held = iota
	Read             // all of them were read from another file, as far as can be told
	Unread           // some were not
)

// Verdict is what is done with a file beside one that is gone.
type Verdict uint8

// What may be done. All but Take and Compare leave the file alone.
const (
	OtherName Verdict = iota // rotation gives no such name
	Left                     // it is Elsewhere
	Met                      // it is Known
	Older                    // it was made no later than the file that is gone or before that was seen last, or has an earlier date
	Copied                   // all that it holds was read
	Compare                  // it is for another call, when it was compared with what was read
	Take                     // it is read
)

// verdictWords is the table in docs/design.md, in the order of the verdicts.
var verdictWords = [...]struct{ of, is string }{
	{"has a name that rotation does not give", "left alone"},
	{"is left out by `exclude`, or another input reads it", "left alone"},
	{"is known, or being read", "left alone"},
	{"was made no later than the file that is gone or before that was seen last, or is compressed and has an earlier date in its name", "left alone"},
	{"holds only what was read from other files", "left alone"},
	{"was not compared yet", "compared, and judged again"},
	{"else", "read under its new name"},
}

// String returns the row of the table that led to the verdict.
func (v Verdict) String() string { return verdictWords[v].of }

// ClockLag is how far the clock that stamps files may be behind that of the agent, in ns.
const ClockLag = 1e9

// Judge decides about a file beside the gone one, by the table in docs/design.md (Rotated before it
// was opened). hasName is what Names returned.
func (g Gone) Judge(b Beside, hasName func(string) bool) Verdict {
	// A compressed file is made later than what it holds, whose time of change it keeps.
	made := b.Born
	if compressed.IsNamed(b.Name) {
		made = min(made, b.Written)
	}
	switch {
	case !hasName(b.Name):
		return OtherName
	case b.Elsewhere:
		return Left
	case b.Known:
		return Met
	case b.Born == 0 && (g.Written == 0 || b.Written <= g.Written || b.Written < g.Seen-ClockLag):
		return Older
	case compressed.IsNamed(b.Name) && g.isDatedAfter(b.Name):
		return Older
	case b.Born != 0 && (made <= g.Born || g.Seen > 0 && b.Born < g.Seen-ClockLag):
		return Older
	case b.Held == Read:
		return Copied
	case b.Held == NotCompared:
		return Compare
	}
	return Take
}

// isDatedAfter reports whether the name of the gone file has a later date than that of another of its form, which
// was rotated before it then. Of two that are compressed those within an hour are not told apart: the clock by
// which they are named may be set back by that. Who compresses files at once has compressed the gone one first.
func (g Gone) isDatedAfter(name string) bool {
	of, known := dateOf(name)
	own, is := dateOf(g.Now)
	if !known || !is {
		return false
	}
	if compressed.IsNamed(g.Now) {
		of = of.Add(time.Hour)
	}
	return of.Before(own)
}

// calendar is a date with the year first, and perhaps a time of day.
var calendar = regexp.MustCompile(`(?:19|20)[0-9]{2}[-._]?(?:0[1-9]|1[0-2])[-._]?[0-3][0-9](?:[-._T]?[0-2][0-9][-._:]?[0-5][0-9](?:[-._:]?[0-5][0-9])?(?:[^0-9]|$))?`)

// dateOf returns the last date in a name.
func dateOf(name string) (at time.Time, ok bool) {
	all := calendar.FindAllString(compressed.Bare(name), -1)
	if len(all) == 0 {
		return at, false
	}
	digits := strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, all[len(all)-1])
	at, err := time.Parse("20060102150405"[:len(digits)], digits)
	return at, err == nil
}

// Names returns a function that reports whether rotation may have given a file this name.
func (g Gone) Names() func(name string) bool {
	is := rotatedFrom(g.Name)
	switch {
	case g.Kept:
		is = alike(g.Name)
	case g.isStamped():
		is = stamped.MatchString
	case g.isOfDate():
		of := is
		_, isOther := g.OtherDates()
		is = func(name string) bool {
			return g.Now == "" && of(name) || name != g.Name && compressed.Bare(name) != g.Name && isOther(name)
		}
	case g.Now != "":
		is = like(g.Name, g.Now)
	}
	return func(name string) bool {
		return is(name) || g.Replaced && name == g.Name || g.Empty && name != g.Name && compressed.Bare(name) == g.Name
	}
}

// stamped is what multilog, svlogd and s6-log call the files that they rotate: a time in TAI64N, and
// whether all of the file is on the disk.
var stamped = regexp.MustCompile(`^@[0-9a-f]{24}\.[stu]$`)

// IsOf reports whether a file with this name may be one that was called old, or a copy of that: the name
// begins with that without its extension, or is one that such a program gives.
func IsOf(name, old string) bool {
	return hasStem(name, Stem(old)) || old == "current" && stamped.MatchString(name)
}

// hasStem reports whether a name begins with a stem, and a number at the end of that is as long in the name: app-1
// is no stem of app-10. What rotation may have put there without anything between is a date.
func hasStem(name, stem string) bool {
	more, ok := strings.CutPrefix(name, stem)
	if !ok || stem == "" {
		return false
	}
	if c := stem[len(stem)-1]; c < '0' || c > '9' {
		return true
	}
	digits := len(more) - len(strings.TrimLeft(more, "0123456789"))
	return digits == 0 || digits >= dateDigits
}

// Beginnings returns what the names begin with that IsOf accepts for a file that was called old.
func Beginnings(old string) []string {
	if old == "current" {
		return []string{"@", old}
	}
	return []string{Stem(old)}
}

// Names is a set of names that files had, as IsOf needs them.
type Names map[string]bool

// stampedToo is a key that no name has.
const stampedToo = "/"

// Add adds a name.
func (n Names) Add(old string) {
	n[Stem(old)] = true
	if old == "current" {
		n[stampedToo] = true
	}
}

// HasOf reports whether IsOf is true of a name and one of the set.
func (n Names) HasOf(name string) bool {
	for end := 1; end <= len(name); end++ {
		if n[name[:end]] && hasStem(name, name[:end]) {
			return true
		}
	}
	return n[stampedToo] && stamped.MatchString(name)
}

// isStamped reports whether the file is one that such a program has written, or may be.
func (g Gone) isStamped() bool {
	return g.Name == "current" && (g.Now == "" || stamped.MatchString(g.Now))
}

// isOfDate reports whether the file had the date in its name, so that there is one for each date, and has
// no other name now, but that it may be compressed. Those of later dates may be compressed too.
func (g Gone) isOfDate() bool {
	return !g.Deleted && (g.Now == "" || compressed.Bare(g.Now) == g.Name) && date.MatchString(g.Name)
}

// OtherDates returns the form of the name of a file that had the date in it, and a function which reports
// whether a name is that of a compressed file of this form that is not known: for that it does not matter which
// date the file had. The form of other files is empty.
func (g Gone) OtherDates() (form string, is func(name string) bool) {
	if g.Kept || !g.isOfDate() {
		return "", nil
	}
	form = formOf(g.Name)
	return form, func(name string) bool {
		bare := compressed.Bare(name)
		return bare != name && formOf(bare) == form && (g.Lacks == nil || g.Lacks(bare))
	}
}

// Prefix is what all names begin with that Names returns true for.
func (g Gone) Prefix() string {
	switch {
	case g.Kept, g.isOfDate():
		return g.Name[:max(strings.IndexAny(g.Name, "0123456789"), 0)]
	case g.isStamped():
		return "@"
	}
	return Stem(g.Name)
}

// Stem is a name without its extension. A name such as .bashrc has none.
func Stem(name string) string {
	if stem := strings.TrimSuffix(name, filepath.Ext(name)); stem != "" {
		return stem
	}
	return name
}

// like returns a function that reports whether a name differs from now only in its numbers, as
// app.log.2 and app.log.1 do. old is the name of the file before it was renamed to now. If now does
// not begin like old, or the renaming has added no number, the function returns false for all names.
// The suffix of compression does not count.
func like(old, now string) func(name string) bool {
	form, stem := formOf(compressed.Bare(now)), Stem(old)
	if !strings.HasPrefix(now, stem) || !strings.Contains(form, "0") || form == formOf(old) {
		return func(string) bool { return false }
	}
	is := ofForm(formOf, form, now)
	return func(name string) bool { return hasStem(name, stem) && is(name) }
}

// alike returns a function that reports whether a name differs from old only in its numbers. If old has
// none, the function returns false for all names. A number at the end of a name with a date may be missing: of the
// files of a day the first may have none.
func alike(old string) func(name string) bool {
	of := formOf
	if date.MatchString(old) {
		of = func(name string) string { return formOf(unnumbered(name)) }
	}
	form := of(old)
	if !strings.Contains(form, "0") {
		return func(string) bool { return false }
	}
	return ofForm(of, form, old)
}

// unnumbered is a name with a date, without a number at its end.
func unnumbered(name string) string {
	if ext := filepath.Ext(name); ext != "" && strings.Trim(ext[1:], "0123456789") == "" && date.MatchString(Stem(name)) {
		return Stem(name)
	}
	return name
}

// ofForm returns a function that reports whether a name, but for one, has a form, which of tells. The suffix of
// compression does not count.
func ofForm(of func(name string) string, form, but string) func(name string) bool {
	return func(name string) bool { return name != but && of(compressed.Bare(name)) == form }
}

// numbered is what rotation puts behind a name: a number, a date or a time.
var numbered = regexp.MustCompile(`^[-._]?[0-9][-._:TZ0-9]*$`)

// date is a date or a time in a name. A shorter number may be what distinguishes logs, as in app-2.log.
var date = regexp.MustCompile(`[0-9](?:[-._:TZ]*[0-9]){7}`)

// dated is what rotation puts before an extension: a date or a time.
var dated = regexp.MustCompile(`^[-._]?` + date.String() + `[-._:TZ0-9]*$`)

// rotatedFrom returns a function that reports whether rotation may have given a file this name: old
// with a number after it, or with a date before its extension. The suffix of compression does not
// count.
func rotatedFrom(old string) func(name string) bool {
	stem, ext := Stem(old), filepath.Ext(old)
	return func(name string) bool {
		if hasStem(name, old) && numbered.MatchString(compressed.Bare(name[len(old):])) {
			return true
		}
		bare := compressed.Bare(name)
		if ext == "" || !hasStem(bare, stem) {
			return false
		}
		date, ok := strings.CutSuffix(bare[len(stem):], ext)
		return ok && dated.MatchString(date)
	}
}

// formOf returns a name with each number replaced by one zero, or by two if it has the digits of a date.
func formOf(name string) string {
	var b strings.Builder
	digits := 0
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			b.WriteByte(c)
			digits = 0
			continue
		}
		if digits++; digits == 1 || digits == dateDigits {
			b.WriteByte('0')
		}
	}
	return b.String()
}

// dateDigits is how many digits a date has at least.
const dateDigits = 8
