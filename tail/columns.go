package tail

import "kusto-agent/internal/format"

// ExpectedColumns are the members of an input's records that follow from its settings, in
// order; nil: the settings do not say. The settings have to be valid.
func (c InputConfig) ExpectedColumns() []format.Column {
	in := &input{Input: Input{InputConfig: c}}
	if in.shape() != nil {
		return nil
	}
	o := in.options()
	return o.Columns()
}

// HasTexts reports whether all values of the input's records are texts, even those that look like
// numbers. This is so for parse: logfmt, also of the messages in container logs.
func (c InputConfig) HasTexts() bool {
	parse, _ := format.ParseOf(c.Parse)
	inner, _ := format.InnerOf(c.Inner)
	return parse.Taken(inner) == format.ParseLogfmt
}

// ScanOptions are the options of the scanner for this input, for a caller that reads files
// without tailing them.
func (in Input) ScanOptions() (format.Options, error) {
	x, err := newInput(in)
	if err != nil {
		return format.Options{}, err
	}
	return x.options(), nil
}
