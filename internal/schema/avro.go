package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/avro/ocf"
)

// addAvro adds to the sample the fields of the schema in the header of an Avro file, and counts the
// file as one record. It looks at no records. It fails if the schema is not that of a record.
func (s *Sample) addAvro(text []byte) error {
	r, err := ocf.NewReader(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read Avro header: %w", err)
	}
	defer r.Close()
	var schema struct {
		Type   string
		Fields []struct {
			Name string
			Type json.RawMessage
		}
	}
	err = json.Unmarshal(r.Metadata()["avro.schema"], &schema)
	if err != nil || schema.Type != "record" {
		return errors.New("the schema of the Avro file is not that of a record")
	}
	s.Records++
	a := avroTypes{}
	for _, f := range schema.Fields {
		s.see(f.Name, a.of(f.Type))
	}
	return nil
}

// avroTypes has the types of the schemas that were given a name, by its last part:
// the namespace before it is that of what they stand in, unless it is given.
type avroTypes map[string]Type

// of returns the column type for the values of an Avro schema: a name, a union (a JSON array) or an
// object; "" for null. Schemas that are given a name inside it are remembered in a, since later
// ones may refer to them.
func (a avroTypes) of(raw json.RawMessage) Type {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return a.named(name)
	}
	var union []json.RawMessage
	if json.Unmarshal(raw, &union) == nil {
		var t Type
		for _, one := range union {
			t = Merged(t, a.of(one))
		}
		return t
	}
	var schema struct {
		Type        json.RawMessage
		LogicalType string
		Name        string
		Fields      []struct{ Type json.RawMessage }
		Items       json.RawMessage
		Values      json.RawMessage
	}
	if json.Unmarshal(raw, &schema) != nil {
		return String
	}
	t, logical := avroLogical[schema.LogicalType]
	if !logical {
		t = a.of(schema.Type)
	}
	if schema.Name != "" {
		a[lastPart(schema.Name)] = t
	}
	for _, f := range schema.Fields { // for the names given inside, which later schemas may use
		a.of(f.Type)
	}
	for _, inner := range []json.RawMessage{schema.Items, schema.Values} {
		if inner != nil {
			a.of(inner)
		}
	}
	return t
}

var avroLogical = map[string]Type{
	"date": Datetime, "time-millis": Timespan, "time-micros": Timespan, "timestamp-millis": Datetime, "timestamp-micros": Datetime,
	"timestamp-nanos": Datetime, "local-timestamp-millis": Datetime, "local-timestamp-micros": Datetime, "local-timestamp-nanos": Datetime,
	"decimal": Decimal, "big-decimal": Decimal, "uuid": GUID,
}

var avroPlain = map[string]Type{
	"null": "", "boolean": Bool, "int": Long, "long": Long, "float": Real, "double": Real, "bytes": String, "string": String, "enum": String,
	"fixed": String, "record": Dynamic, "array": Dynamic, "map": Dynamic, "error": Dynamic,
}

// named returns the column type for a primitive Avro type or for the name of a schema; "" for null.
// A name that is not known yet is that of the record around it, so the type is dynamic.
func (a avroTypes) named(name string) Type {
	if t, ok := avroPlain[name]; ok {
		return t
	}
	if t, ok := a[lastPart(name)]; ok {
		return t
	}
	return Dynamic // the record around it
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
