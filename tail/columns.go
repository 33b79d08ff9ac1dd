package tail

import "kusto-agent/internal/format"

// ExpectedColumns are the members of the records of an input that its settings tell,
// in their order; nil: only the records do. The settings are ones that New takes.
func (c InputConfig) ExpectedColumns() []format.Column {
	in := &input{Input: Input{InputConfig: c}}
	if in.shape() != nil {
		return nil
	}
	o := in.options()
	return o.Columns()
}

// HasTexts reports whether the values of members are texts, also where they are numbers.
func (c InputConfig) HasTexts() bool {
	parse, _ := format.ParseOf(c.Parse)
	inner, _ := format.InnerOf(c.Inner)
	return parse.Taken(inner) == format.ParseLogfmt
}

// ScanOptions are how records are found, checked and shaped, for those who only look.
func (in Input) ScanOptions() (format.Options, error) {
	x, err := newInput(in)
	if err != nil {
		return format.Options{}, err
	}
	return x.options(), nil
}
