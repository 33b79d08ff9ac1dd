// Microsoft's Node SDK as a client of the emulator. CLUSTER is its URL, TOKEN what it
// demands, AVRO a file of the two rows that the other formats hold too.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { after, before, test } from "node:test";
import zlib from "node:zlib";
import { Client, ClientRequestProperties, KustoConnectionStringBuilder } from "azure-kusto-data";
import { ManagedStreamingIngestClient, StreamingIngestClient, StreamDescriptor, CompressionType } from "azure-kusto-ingest";

const { CLUSTER, TOKEN, AVRO } = process.env;
const DB = "Sdk";
const connection = (token = TOKEN) => KustoConnectionStringBuilder.withAccessToken(CLUSTER, token);

let client, dir;
before(() => {
    client = new Client(connection());
    dir = fs.mkdtempSync(path.join(os.tmpdir(), "sdk-"));
});
after(() => {
    client.close();
    fs.rmSync(dir, { recursive: true });
});

const withOptions = (options, parameters) => new ClientRequestProperties(options, parameters);
const rows = (answer) => JSON.parse(JSON.stringify([...answer.primaryResults[0].rows()].map((row) => [...row.values()])));
const query = async (text, properties) => rows(await client.executeQuery(DB, text, properties));
const queryV1 = async (text, properties) => rows(await client.executeQueryV1(DB, text, properties));
const mgmt = async (text) => rows(await client.executeMgmt(DB, text));
const refused = (promise, status, code) =>
    assert.rejects(promise, (err) => {
        assert.equal(err.response?.status, status, String(err));
        if (code) assert.match(JSON.stringify(err.response.data), code);
        return true;
    });

async function newTable(name) {
    await mgmt(`.create-merge table ${name} (s:string, n:long)`);
    const at = (how) => JSON.stringify([{ column: "s", Properties: how("s") }, { column: "n", Properties: how("n") }]);
    await mgmt(`.create-or-alter table ${name} ingestion json mapping "json" '${at((c) => ({ Path: "$." + c }))}'`);
    await mgmt(`.create-or-alter table ${name} ingestion avro mapping "avro" '${at((c) => ({ Field: c }))}'`);
    await mgmt(`.create-or-alter table ${name} ingestion csv mapping "swapped" '${at((c) => ({ Ordinal: c === "s" ? "1" : "0" }))}'`);
    await mgmt(".clear database cache streamingingestion schema");
}

test("management", async () => {
    await newTable("Managed");
    assert.deepEqual((await mgmt(".show tables | project TableName")).flat(), ["Managed"]);
    assert.deepEqual(await mgmt(".show table Managed cslschema | project Schema"), [["s:string,n:long"]]);
    assert.deepEqual(await mgmt(".show table Managed ingestion mappings | project Name | order by Name asc"), [["avro"], ["json"], ["swapped"]]);
    await mgmt(".alter table Managed policy streamingingestion enable");
    assert.equal((await mgmt(".show database Sdk schema as json")).length, 1);
    assert.equal(rows(await client.execute(DB, "  .show version")).length, 1);
    assert.equal((await mgmt('.cancel query "nothing"'))[0][1], false);
    await refused(client.executeMgmt(DB, ".shw tables"), 400, /SYN0002/);
    await refused(client.executeMgmt(DB, ".drop table Nope"), 400, /EntityNotFound/);
    await mgmt(".drop table Managed");
});

const literals =
    'print s="x", b=true, i=int(7), l=9007199254740991, r=1.5, d=decimal(1.25), t=datetime(2020-01-02T03:04:05.678Z), ' +
    'p=time(1.02:00:00), g=guid(74be27de-1e4e-49d9-b579-fe0b331d3642), o=dynamic({"a":[1,null]}), n=long(null)';
const values = ["x", true, 7, 9007199254740991, 1.5, "1.25", "2020-01-02T03:04:05.6780000Z", "1.02:00:00", "74be27de-1e4e-49d9-b579-fe0b331d3642"];

test("values of each type, version 2 and 1", async () => {
    for (const ask of [query, queryV1]) {
        const [row] = await ask(literals);
        assert.deepEqual(row.slice(0, 9), values);
        assert.deepEqual(row[9], { a: [1, null] });
        assert.equal(row[10], null);
    }
    const answer = await client.executeQuery(DB, "print t=datetime(2020-01-02), p=time(00:00:01.5), e=datetime(null)");
    const [row] = [...answer.primaryResults[0].rows()];
    assert.equal(row.t.toISOString(), "2020-01-02T00:00:00.000Z");
    assert.equal(row.p, 1500);
    assert.equal(row.e, null);
    assert.equal(answer.primaryResults[0].columns.map((c) => c.type).join(), "datetime,timespan,datetime");
    assert.equal(answer.statusTable.name, "QueryCompletionInformation");
    assert.deepEqual(answer.getErrorsCount(), { warnings: 0, errors: 0 });
});

test("parameters of each type, version 2 and 1", async () => {
    const one = async (type, value, want) => {
        for (const ask of [query, queryV1]) {
            const got = await ask(`declare query_parameters(p:${type}); print p`, withOptions({}, { p: value }));
            assert.deepEqual(got, [[want]], `${type} ${value}`);
        }
    };
    await one("string", "TEXAS", "TEXAS");
    await one("string", "it's \"quoted\"; | take 1", "it's \"quoted\"; | take 1");
    await one("long", 10, 10);
    await one("long", "long(10)", 10);
    await one("int", "int(7)", 7);
    await one("bool", "true", true);
    await one("real", "real(1.5)", 1.5);
    await one("decimal", "decimal(1.25)", "1.25");
    await one("datetime", "datetime(2020-01-02)", "2020-01-02T00:00:00.0000000Z");
    await one("timespan", "timespan(01:30:00)", "01:30:00");
    await one("guid", "guid(74be27de-1e4e-49d9-b579-fe0b331d3642)", "74be27de-1e4e-49d9-b579-fe0b331d3642");
    await one("dynamic", 'dynamic(["a","b"])', ["a", "b"]);
    await refused(query("declare query_parameters(p:long); print p", withOptions({}, { p: "TEXAS" })), 400, /SEM0100/);
});

test("errors", async () => {
    await refused(query("Nope | count"), 400, /SEM0100/);
    await refused(query("print 1 +"), 400, /SYN0002/);
    await refused(queryV1("Nope | count"), 400, /SEM0100/);
    await refused(query("print 1", withOptions({ servertimeout: -1 })), 400, /servertimeout/);
    const stranger = new Client(connection("not-issued"));
    await refused(stranger.executeQuery(DB, "print 1"), 401);
    await refused(client.executeQuery(DB, ".show tables"), 400);
    stranger.close();
});

test("request id, readonly, timeout", async () => {
    const properties = new ClientRequestProperties({}, {}, "KNC.mine;1");
    const answer = await client.executeQuery(DB, "print 1", properties);
    assert.equal([...answer.statusTable.rows()][0].ClientRequestId, "KNC.mine;1");
    await refused(client.executeMgmt(DB, ".create table X (a:int)", withOptions({ request_readonly: true })), 400, /readonly/);
    const timed = new ClientRequestProperties();
    timed.setTimeout(30_000);
    assert.deepEqual(await query("print 1", timed), [[1]]);
});

test("the query that the description of the interface shows, and several tables", async () => {
    await mgmt(".create-merge table StormEvents (StartTime:datetime, State:string)");
    await mgmt(".clear database cache streamingingestion schema");
    const ingest = new StreamingIngestClient(connection());
    await ingest.ingestFromStream(Readable.from([Buffer.from("2007-01-01,TEXAS\n2007-02-01,ATLANTIC SOUTH\n2007-03-01,ATLANTIC SOUTH\n")]), properties("StormEvents", "csv"));
    ingest.close();
    const text = "declare query_parameters (n:long, d:dynamic); StormEvents | where State in (d) | top n by StartTime desc";
    const asked = withOptions({ servertimeout: 3_000_000 }, { n: 10, d: 'dynamic(["ATLANTIC SOUTH"])' });
    const south = [["2007-03-01T00:00:00.0000000Z", "ATLANTIC SOUTH"], ["2007-02-01T00:00:00.0000000Z", "ATLANTIC SOUTH"]];
    assert.deepEqual(await query(text, asked), south);
    assert.deepEqual(await queryV1(text, asked), south);
    for (const answer of [await client.executeQuery(DB, "print 1; let a = 2; print a, 3"), await client.executeQueryV1(DB, "print 1; let a = 2; print a, 3")]) {
        assert.deepEqual(answer.primaryResults.map((t) => [...t.rows()].map((r) => [...r.values()])), [[[1]], [[2, 3]]]);
    }
});

const formats = {
    csv: "a,1\nb,2\n",
    tsv: "a\t1\nb\t2\n",
    scsv: "a;1\nb;2\n",
    sohsv: "a\x011\nb\x012\n",
    psv: "a|1\nb|2\n",
    json: '{"s":"a","n":1}\n{"s":"b","n":2}\n',
    multijson: '{\n"s":"a",\n"n":1}\n{"s":"b","n":2}',
    avro: null,
    txt: "a\nb\n",
};
const mappings = { json: "json", multijson: "json", avro: "avro" };
const content = (format) => (format === "avro" ? fs.readFileSync(AVRO) : Buffer.from(formats[format]));
const expected = (format) => (format === "txt" ? [["a", null], ["b", null]] : [["a", 1], ["b", 2]]);
const properties = (table, format, mapping = mappings[format]) => ({ database: DB, table, format, ingestionMappingReference: mapping });

for (const format of Object.keys(formats)) {
    test(`streaming ingestion of ${format}, from a stream and from a file`, async () => {
        const table = "From_" + format;
        await newTable(table);
        const ingest = new StreamingIngestClient(connection());
        const check = async (how) => {
            assert.deepEqual(await query(`${table} | order by s asc`), expected(format), how);
            await mgmt(`.clear table ${table} data`);
        };
        await ingest.ingestFromStream(Readable.from([content(format)]), properties(table, format));
        await check("stream");
        await ingest.ingestFromStream(new StreamDescriptor(Readable.from([zlib.gzipSync(content(format))]), undefined, CompressionType.GZIP), properties(table, format));
        await check("stream of gzip");
        const file = path.join(dir, "rows." + format);
        fs.writeFileSync(file, content(format));
        await ingest.ingestFromFile(file, properties(table, format));
        await check("file");
        fs.writeFileSync(file + ".gz", zlib.gzipSync(content(format)));
        await ingest.ingestFromFile(file + ".gz", properties(table, format));
        await check("file of gzip");
        ingest.close();
    });
}

test("streaming ingestion: a table with a space, a mapping of fields, an id, and refusals", async () => {
    await newTable("['a table']");
    const ingest = new StreamingIngestClient(connection());
    await ingest.ingestFromStream(Readable.from([Buffer.from("1,a\n2,b\n")]), properties("a table", "csv", "swapped"), "KNC.mine;7");
    assert.deepEqual(await query("['a table'] | order by s asc"), [["a", 1], ["b", 2]]);
    await refused(ingest.ingestFromStream(Readable.from([Buffer.from("a,1\n")]), properties("Nope", "csv")), 400, /EntityNotFound/);
    await refused(ingest.ingestFromStream(Readable.from([Buffer.from("{}\n")]), properties("a table", "json", null)), 400, /Mapping/);
    await refused(ingest.ingestFromStream(Readable.from([Buffer.from('a,"1\n')]), properties("a table", "csv")), 400, /ClosingQuote/);
    ingest.close();
});

test("managed streaming", async () => {
    await newTable("Kept");
    const ingest = new ManagedStreamingIngestClient(connection(), connection(), { database: DB, table: "Kept" });
    await ingest.ingestFromStream(Readable.from([content("json")]), properties("Kept", "json"));
    const file = path.join(dir, "kept.csv");
    fs.writeFileSync(file, "c,3\n");
    await ingest.ingestFromFile(file, properties("Kept", "csv"));
    assert.deepEqual(await query("Kept | order by n asc"), [["a", 1], ["b", 2], ["c", 3]]);
    ingest.close();
});

test("truncation", async () => {
    await newTable("Many");
    const ingest = new StreamingIngestClient(connection());
    await ingest.ingestFromStream(Readable.from([content("csv")]), properties("Many", "csv"));
    ingest.close();
    const cut = { truncationmaxrecords: 1 };
    await assert.rejects(query("Many", withOptions(cut)), /E_QUERY_RESULT_SET_TOO_LARGE/);
    // Of version 1 the SDK does not look at what went wrong; the answer has it.
    const raw = Object.assign(withOptions(cut), { raw: true });
    assert.match((await client.executeQueryV1(DB, "Many", raw)).Exceptions[0], /E_QUERY_RESULT_SET_TOO_LARGE/);
    assert.equal((await query("Many", withOptions({ ...cut, notruncation: true }))).length, 2);
    assert.equal((await query("Many", withOptions({ query_take_max_records: 1 }))).length, 1);
});
