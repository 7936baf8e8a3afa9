"""Opens the outputs of a demo with two Parquet readers that share no code with the writer.

    check.py KEPT SOURCES DATASET...

KEPT is the folder of `lockstep demo --keep KEPT`, SOURCES the folder whose files that demo processed. Every output must
open in pyarrow and in DuckDB, with as many rows as report.json says, and with the values of its source file, row by row.
Each DATASET must be there in full, under the columns and types below.
"""

import csv
import datetime
import decimal
import glob
import json
import math
import pathlib
import sys

import duckdb
import pyarrow
import pyarrow.parquet

ROOT = pathlib.Path(__file__).resolve().parents[2]
DUCKDB_TYPES = {
    pyarrow.date32(): "DATE",
    pyarrow.int64(): "BIGINT",
    pyarrow.float64(): "DOUBLE",
    pyarrow.string(): "VARCHAR",
}
DATE, BIGINT, DOUBLE, VARCHAR = DUCKDB_TYPES.values()

# data set: rows in all, type of each column
DATASETS = {
    "seattle-weather": (1461, {
        "date": DATE, "precipitation": DOUBLE, "temp_max": DOUBLE, "temp_min": DOUBLE, "wind": DOUBLE, "weather": VARCHAR,
    }),
    "birdstrikes": (10000, {
        "Airport Name": VARCHAR, "Aircraft Make Model": VARCHAR, "Effect Amount of damage": VARCHAR, "Flight Date": DATE,
        "Aircraft Airline Operator": VARCHAR, "Origin State": VARCHAR, "Phase of flight": VARCHAR,
        "Wildlife Size": VARCHAR, "Wildlife Species": VARCHAR, "Time of day": VARCHAR, "Cost Other": BIGINT,
        "Cost Repair": BIGINT, "Cost Total $": BIGINT, "Speed IAS in knots": BIGINT,
    }),
    "us-employment": (120, {
        "month": DATE, "nonfarm": BIGINT, "private": BIGINT, "goods_producing": BIGINT, "service_providing": BIGINT,
        "private_service_providing": BIGINT, "mining_and_logging": BIGINT, "construction": BIGINT, "manufacturing": BIGINT,
        "durable_goods": BIGINT, "nondurable_goods": BIGINT, "trade_transportation_utilties": BIGINT,
        "wholesale_trade": DOUBLE, "retail_trade": DOUBLE, "transportation_and_warehousing": DOUBLE, "utilities": DOUBLE,
        "information": BIGINT, "financial_activities": BIGINT, "professional_and_business_services": BIGINT,
        "education_and_health_services": BIGINT, "leisure_and_hospitality": BIGINT, "other_services": BIGINT,
        "government": BIGINT, "nonfarm_change": BIGINT,
    }),
    "penguins": (344, {
        "Species": VARCHAR, "Island": VARCHAR, "Beak Length (mm)": DOUBLE, "Beak Depth (mm)": DOUBLE,
        "Flipper Length (mm)": BIGINT, "Body Mass (g)": BIGINT, "Sex": VARCHAR,
    }),
}


class Wrong(Exception):
    """Something is not as it must be."""


def expect(what, got, want):
    if got != want:
        raise Wrong(f"{what}: got {got!r}, want {want!r}")


def source_records(path):
    """The records of a source file, by the standard library: of CSV, lists of texts; of JSON, objects."""
    compression = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with pyarrow.input_stream(str(path), compression=compression) as stream:
        text = stream.read().decode("utf-8-sig")
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(".json"):
        return json.loads(text)
    if name.endswith(".ndjson"):
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.reader(text.splitlines(keepends=True)))


def same(value, source):
    """Whether an output value is what the source says: a text of CSV, or a JSON value."""
    if source is None or source == "":
        return value is None
    if isinstance(value, datetime.date):
        return value.isoformat() == source
    if isinstance(value, int):
        return (str(value) if isinstance(source, str) else value) == source
    if isinstance(value, float):
        return math.isfinite(value) and decimal.Decimal(repr(value)) == decimal.Decimal(str(source))
    return value == source


def check_values(output, table, source):
    records = source_records(source)
    if isinstance(records[0], list):
        header, records = records[0], records[1:]
        expect(f"{output}: columns", table.column_names, header)
        wanted = lambda record, i, name: record[i]
    else:
        wanted = lambda record, i, name: record.get(name)
    expect(f"{output}: rows of the source", table.num_rows, len(records))
    for i, name in enumerate(table.column_names):
        for row, (value, record) in enumerate(zip(table.column(i).to_pylist(), records)):
            if not same(value, wanted(record, i, name)):
                raise Wrong(f"{output}: row {row}, column {name!r}: got {value!r}, the source has {wanted(record, i, name)!r}")


def check_output(output, file, source):
    """Reads one output with both readers; returns its rows and the DuckDB type of each column."""
    table = pyarrow.parquet.read_table(output, partitioning=None)
    answer = duckdb.sql(f"SELECT * FROM read_parquet({quoted(output)}, hive_partitioning = false)")
    expect(f"{output}: rows in pyarrow", table.num_rows, file["rows"])
    types = dict(zip(answer.columns, map(str, answer.types)))
    expect(f"{output}: types", {f.name: DUCKDB_TYPES.get(f.type, f.type) for f in table.schema}, types)
    if answer.fetchall() != list(zip(*(c.to_pylist() for c in table.columns))):
        raise Wrong(f"{output}: pyarrow and DuckDB read different rows")
    expect(f"{output}: rejected rows", file["rejected"], 0)
    check_values(output, table, source)
    return table.num_rows, types


def quoted(path):
    return "'" + str(path).replace("'", "''") + "'"


def main(kept, sources, *datasets):
    kept, sources = pathlib.Path(kept), pathlib.Path(sources)
    event = json.loads((ROOT / "events" / "schedule.json").read_text())
    lake = kept / event["destination"]["bucket"]
    report = json.loads((kept / "report.json").read_text())

    seen = {}  # data set: rows
    files = [f for f in report["files"] if f["outcome"] == "done"]
    for file in files:
        path = file["key"].removeprefix(event["source"]["prefix"])
        dataset = path.split("/")[0].split(".")[0]
        rows, types = check_output(lake / file["outputKey"], file, sources / path)
        seen[dataset] = seen.get(dataset, 0) + rows
        if dataset in datasets:
            expect(f"{file['outputKey']}: types", types, DATASETS[dataset][1])
    for dataset in datasets:
        expect(f"{dataset}: rows in all", seen.get(dataset), DATASETS[dataset][0])

    outputs = {f["outputKey"] for f in files}
    expect("files that share an output with another", len(files) - len(outputs), 0)
    expect("outputs that are not one file's", sorted(outputs ^ set(glob.glob("**/*.parquet", root_dir=lake, recursive=True))), [])
    total = duckdb.sql(f"SELECT count(*) FROM read_parquet({quoted(lake)} || '/**/*.parquet', union_by_name = true)").fetchall()[0][0]
    expect("rows of all outputs in one query", total, sum(run["rows"] for run in report["runs"]))
    counts = ", ".join(f"{name} {rows}" for name, rows in sorted(seen.items()))
    print(f"ok: {len(files)} outputs, {total} rows ({counts}) agree in pyarrow {pyarrow.__version__}, DuckDB {duckdb.__version__} and the sources")


if __name__ == "__main__":
    if len(sys.argv) < 4 or not set(sys.argv[3:]) <= set(DATASETS):
        sys.exit(f"{__doc__}\nDATASET is one of: {', '.join(DATASETS)}")
    try:
        main(*sys.argv[1:])
    except Wrong as wrong:
        sys.exit(f"check.py: {wrong}")
