package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Known returns an error that names the inputs in asked (--input of a command) that are not in
// configured and of which the report has no file; nil if there are none. A configured input may
// have read nothing yet, so that it needs no file.
func (r *Report) Known(asked, configured []string) error {
	var not, there []string
	for i := range r.Files {
		there = append(there, r.Files[i].Input)
	}
	there = append(there, configured...)
	slices.Sort(there)
	there = slices.Compact(there)
	for _, name := range asked {
		if !slices.Contains(there, name) {
			not = append(not, fmt.Sprintf("%q", name))
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
