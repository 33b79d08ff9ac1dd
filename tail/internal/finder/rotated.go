package finder

import (
	"cmp"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Like returns a function that reports whether a name differs from rotated only in its numbers, as
// app.log.2 and app.log.1 do. old is the name of the file before it was renamed to rotated. If
// rotated does not begin like old, or the renaming has added no number, the function returns false
// for all names. unpacked removes the suffix of compression, which does not count.
func Like(old, rotated string, unpacked func(name string) string) func(name string) bool {
	form, stem := formOf(unpacked(rotated)), Stem(old)
	if !strings.HasPrefix(rotated, stem) || !strings.Contains(form, "0") || form == formOf(old) {
		return func(string) bool { return false }
	}
	return func(name string) bool {
		return strings.HasPrefix(name, stem) && name != rotated && formOf(unpacked(name)) == form
	}
}

// Stem is a name without its extension.
func Stem(name string) string { return strings.TrimSuffix(name, filepath.Ext(name)) }

// numbered is what rotation puts behind a name: a number, a date or a time.
var numbered = regexp.MustCompile(`^[-._]?[0-9][-._:TZ0-9]*$`)

// dated is what rotation puts before an extension: a date or a time. A shorter number may be part of
// the name of another log, as in app-2.log.
var dated = regexp.MustCompile(`^[-._]?[0-9](?:[-._:TZ]*[0-9]){7}[-._:TZ0-9]*$`)

// RotatedFrom returns a function that reports whether rotation may have given a file this
// name: old with a number after it, or with a date before its extension. unpacked removes the suffix
// of compression.
func RotatedFrom(old string, unpacked func(name string) string) func(name string) bool {
	stem, ext := Stem(old), filepath.Ext(old)
	return func(name string) bool {
		more, ok := strings.CutPrefix(name, old)
		if ok && numbered.MatchString(unpacked(more)) {
			return true
		}
		more, ok = strings.CutPrefix(unpacked(name), stem)
		if !ok || stem == "" || ext == "" {
			return false
		}
		date, ok := strings.CutSuffix(more, ext)
		return ok && dated.MatchString(date)
	}
}

// formOf returns a name with each number replaced by one zero.
func formOf(name string) string {
	var b strings.Builder
	digits := false
	for _, c := range []byte(name) {
		isDigit := '0' <= c && c <= '9'
		if !isDigit {
			b.WriteByte(c)
		} else if !digits {
			b.WriteByte('0')
		}
		digits = isDigit
	}
	return b.String()
}

// remembered is how long a renamed file is known by its names: it may be renamed again
// before a scan comes to it.
const remembered = time.Minute

// renamedFrom returns the name that a file had before a rename event; empty: it is not
// known. fsnotify has it only in the text of the event.
func renamedFrom(e fsnotify.Event) string {
	_, old, found := strings.Cut(e.String(), " \u2190 ")
	if !found {
		return ""
	}
	old, err := strconv.Unquote(old)
	if err != nil {
		return ""
	}
	return old
}

// Rename is one that an event told of.
type Rename struct{ From, To string }

// Origins tells where a file was when its name matched: it can be made and renamed, to a
// name that no pattern matches, before anybody has looked. The zero value is ready. It
// belongs to one goroutine.
type Origins struct {
	by map[string]origin // by the name that a file has now
}

type origin struct {
	path string
	at   time.Time // when that was heard
}

// Follow adds renames, in the order in which they happened. It returns, by its present name, the
// first name of each file that one of them concerns, also if it was renamed several times. Files
// whose first name wanted does not accept are left out. A name is remembered for a minute, in case
// the file is renamed again.
func (o *Origins) Follow(renames []Rename, now time.Time, wanted func(path string) bool) map[string]string {
	if o.by == nil {
		o.by = make(map[string]origin)
	}
	for to, was := range o.by {
		if now.Sub(was.at) > remembered {
			delete(o.by, to)
		}
	}
	last := make(map[string]string)
	for _, r := range renames {
		first := cmp.Or(o.by[r.From].path, r.From)
		delete(o.by, r.From)
		delete(last, r.From)
		if wanted(first) {
			o.by[r.To] = origin{first, now}
			last[r.To] = first
		}
	}
	return last
}
