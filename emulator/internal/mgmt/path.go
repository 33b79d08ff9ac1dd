package mgmt

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Step is one step of a JSON path: into a property, or into an array.
type Step struct {
	Name  string
	index int // counts only where array is set
	array bool
}

// In returns the value that the step leads to from v; nil when v has no such property or element.
func (s Step) In(v json.RawMessage) json.RawMessage {
	if s.array {
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil || s.index >= len(list) {
			return nil
		}
		return list[s.index]
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(v, &object) != nil {
		return nil
	}
	return object[s.Name]
}

var pathStep = regexp.MustCompile(`^(?:\.([^.\[\]'"]+)|\[(\d{1,9})\]|\['([^']*)'\]|\["([^"]*)"\])`)

// parsePath reads a JSON path of properties and array elements, such as $, $.a.b, $['a b'] or $.a[0].
func parsePath(path string) ([]Step, error) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return nil, fmt.Errorf("path %q: want it to begin with $", path)
	}
	var steps []Step
	for rest != "" {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("path %q: cannot read %q", path, rest)
		}
		s := Step{Name: m[1] + m[3] + m[4]}
		if m[2] != "" {
			s.array = true
			s.index, _ = strconv.Atoi(m[2]) // at most nine digits
		}
		steps = append(steps, s)
		rest = rest[len(m[0]):]
	}
	return steps, nil
}
