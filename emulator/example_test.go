package emulator_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/emulator/emulatortest"
)

const appSchema = `{"databases": {"Logs": {"tables": {"App": {
	"columns": "Time:datetime, Level:string",
	"mappings": [{"name": "App_json", "kind": "Json", "columns": [
		{"column": "Time", "path": "$.time"}, {"column": "Level", "path": "$.level"}]}]}}}}}`

// A server knows what its schema names, and takes streaming ingestion as the service does.
func Example() {
	schema, err := emulator.LoadSchema(strings.NewReader(appSchema))
	if err != nil {
		panic(err)
	}
	s := emulator.New(emulator.Options{Schema: schema})
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer s.Close()

	post := func(path, body string) {
		resp, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		defer resp.Body.Close()
		fmt.Println(resp.Status)
	}
	records := `{"time":"2026-11-22T10:00:00Z","level":"warn"}` + "\n"
	post("/v1/rest/ingest/Logs/App?streamFormat=JSON&mappingName=App_json", records)
	post("/v1/rest/ingest/Logs/App?streamFormat=JSON&mappingName=Nobody", records)
	for _, row := range s.Rows("Logs", "App") {
		fmt.Printf("%s\n", row.Raw)
	}
	// Output:
	// 200 OK
	// 400 Bad Request
	// {"time":"2026-11-22T10:00:00Z","level":"warn"}
}

// The answer to the second ingest request is lost after its rows were stored.
func ExampleServer_Fail() {
	s := emulator.New(emulator.Options{})
	fault := s.Fail(emulator.Fault{When: emulator.AfterCommit, Reset: true, Skip: 1, Times: 1})
	client := &http.Client{Transport: emulatortest.Transport(s)}
	for i := range 3 {
		resp, err := client.Post("http://emulator/v1/rest/ingest/Logs/App?streamFormat=TXT", "text/plain", strings.NewReader(fmt.Sprintln("line", i)))
		if err != nil {
			fmt.Println("no answer")
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	fmt.Println(len(s.Rows("Logs", "App")), "rows,", fault.Hits(), "request struck")
	// Output:
	// 200 OK
	// no answer
	// 200 OK
	// 3 rows, 1 request struck
}

// In a test the server ends with the test.
func Example_inATest() {
	test := func(t *testing.T) {
		s := emulatortest.Start(t, emulator.Options{TokenSecret: "secret"})
		resp, err := http.Post(s.URL()+"/v1/rest/ingest/Logs/App?streamFormat=TXT", "text/plain", strings.NewReader("a line\n"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token", resp.Status)
		}
	}
	_ = test
}
