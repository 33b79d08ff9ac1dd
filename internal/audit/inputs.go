package audit

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Known returns an error that names the inputs in asked (--input of a command) that are not in
// configured and of which the report has no file; nil if there are none. A configured input may
// have read nothing yet, so that it needs no file.
func (r *Report) Known(asked, configured []string) error {
	var not []string
	for _, name := range asked {
		if !slices.Contains(configured, name) && !slices.ContainsFunc(r.Files, func(f File) bool { return f.Input == name }) {
			not = append(not, strconv.Quote(name))
		}
	}
	if len(not) == 0 {
		return nil
	}
	text := "--input " + strings.Join(not, ", ") + ": nothing is known of it: no file was judged for it"
	if len(configured) > 0 {
		text += ", and the configuration has no such input; it has " + strings.Join(configured, ", ")
	}
	return errors.New(text)
}
