package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// FuzzScan: the scanner takes what encoding/json takes, and copies the same value.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"x\u00e9\n",null,true,{}]}`, `[[],[{}],{"":{}}]`, `"\ud800"`, `01`, `{"a" 1}`, `[1,]`, `{,}`, `"\x"`, "\"\x01\"", `tru`, `[}`, `10000E800`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s := &scanner{r: io.MultiReader(strings.NewReader(in), strings.NewReader("\n"))}
		to := text{limit: 1 << 20}
		err := s.value(&to)
		if err == nil {
			var done bool
			if done, err = s.atEnd(); err == nil && !done {
				err = errShape
			}
		}
		if want := json.Valid([]byte(in)); (err == nil) != want && !errors.Is(err, errSize) {
			t.Fatalf("%q: %v, valid %v", in, err, want)
		}
		if err != nil {
			return
		}
		// A number stays text: float64 does not hold all that JSON allows.
		read := func(in string) (v any, err error) {
			d := json.NewDecoder(strings.NewReader(in))
			d.UseNumber()
			return v, d.Decode(&v)
		}
		got, gotErr := read(string(to.b))
		want, wantErr := read(in)
		if err := errors.Join(gotErr, wantErr); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q is copied as %q, %v", in, to.b, err)
		}
	})
}
