"""Stored procedures, triggers and functions with the Python SDK: the procedures that
programs bring with them (../scripts), which import, update and delete in bulk and count in
one item, under a key and under a hierarchical one (S145). Run by ../run.sh."""

from pathlib import Path
from urllib.parse import unquote

from server import Case, headers

CLASSICS = {path.stem: path.read_text(encoding="utf-8") for path in Path(__file__).parent.with_name("scripts").glob("*.js")}


class Scripts(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.flat = cls.create("flat", "/pk", partitions=2)
        cls.nested = cls.create("nested", "/t", "/u", partitions=2)

    def classics(self, container, key, members):
        scripts = container.scripts
        for name, body in CLASSICS.items():
            scripts.create_stored_procedure({"id": name, "body": body})

        def run(name, *arguments, partition_key=key):
            return scripts.execute_stored_procedure(name, partition_key=partition_key, params=list(arguments), enable_script_logging=True)

        items = [dict(members, id=f"i{i}", n=i) for i in range(10)]
        self.assertEqual(run("import", items), 10)
        self.refused(400, lambda: run("import", items)) # they exist already
        self.refused(400, lambda: run("import"))
        self.assertEqual(self.rows(container, "SELECT VALUE COUNT(1) FROM c", partition_key=key), [10])
        self.assertEqual(run("count", "i7", 5)["n"], 12)
        self.assertEqual(headers(container)["x-ms-documentdb-script-log-results"], "now%2012")
        self.assertIn("too much", str(self.refused(400, lambda: run("count", "i7", 100))))
        self.assertEqual(container.read_item("i7", key)["n"], 12, "what it wrote is undone")
        unseen = "SELECT * FROM c WHERE NOT IS_DEFINED(c.seen)"
        self.assertEqual([run("update", unseen, "seen", 1)["changed"] for _ in range(4)], [4, 4, 2, 0])
        self.assertEqual(run("delete", "SELECT * FROM c WHERE c.n < 9", 4), {"deleted": 4, "more": True})
        self.assertEqual(run("delete", "SELECT * FROM c WHERE c.n < 5"), {"deleted": 1, "more": False})
        self.assertEqual(run("delete", "SELECT * FROM c"), {"deleted": 5, "more": False})

    def test_procedures_of_a_key(self):
        self.classics(self.flat, "p", {"pk": "p"})

    def test_procedures_of_a_hierarchical_key(self):
        self.classics(self.nested, ["t", "u"], {"t": "t", "u": "u"})

    def test_procedures_are_kept_changed_listed_and_deleted(self):
        scripts = self.flat.scripts
        scripts.create_stored_procedure({"id": "p", "body": "function (a, b) { getContext().getResponse().setBody([a, b]); }"})
        self.refused(409, lambda: scripts.create_stored_procedure({"id": "p", "body": "function () {}"}))
        scripts.create_stored_procedure({"id": "wrong", "body": "function ( {"})
        self.refused(400, lambda: scripts.execute_stored_procedure("wrong", partition_key="x"))
        self.assertEqual(scripts.execute_stored_procedure("p", partition_key="x", params=["å", {"n": 1}]), ["å", {"n": 1}])
        scripts.replace_stored_procedure("p", {"id": "p", "body": "function () { getContext().getResponse().setBody('new'); }"})
        self.assertEqual(scripts.execute_stored_procedure("p", partition_key="x"), "new")
        self.assertIn("'new'", scripts.get_stored_procedure("p")["body"])
        self.assertIn("p", [one["id"] for one in scripts.list_stored_procedures()])
        self.assertEqual(len(list(scripts.query_stored_procedures("SELECT * FROM s WHERE s.id = 'p'"))), 1)
        scripts.delete_stored_procedure("p")
        self.refused(404, lambda: scripts.execute_stored_procedure("p", partition_key="x"))

    def test_log_is_as_long_as_a_client_can_read_or_nothing_is_written(self):
        scripts = self.flat.scripts
        talk = """function (id, text) {
          __.createDocument(__.getSelfLink(), { id, pk: "log" });
          console.log(text);
        }"""
        scripts.create_stored_procedure({"id": "talk", "body": talk})

        def run(name, text):
            scripts.execute_stored_procedure("talk", partition_key="log", params=[name, text], enable_script_logging=True)

        text = "ö " * 888 # 9 bytes each when escaped; a log has 8,000
        run("short", text)
        self.assertEqual(unquote(headers(self.flat)["x-ms-documentdb-script-log-results"]), text)
        self.refused(400, lambda: run("long", text + text))
        self.assertEqual(self.rows(self.flat, "SELECT VALUE c.id FROM c", partition_key="log"), ["short"])

    def test_triggers_run_with_a_write_or_undo_it(self):
        scripts = self.flat.scripts
        stamp = """function () {
          const request = getContext().getRequest(), item = request.getBody();
          if (item) request.setBody({ ...item, by: request.getOperationType() });
        }"""
        guard = """function () {
          const all = getContext().getCollection();
          all.queryDocuments(all.getSelfLink(), "SELECT VALUE COUNT(1) FROM c", (error, rows) => {
            if (error) throw error;
            if (rows[0] > 2) throw new Error("There are " + rows[0]);
          });
        }"""
        scripts.create_trigger({"id": "stamp", "serverScript": stamp, "triggerType": "Pre", "triggerOperation": "All"})
        scripts.create_trigger({"id": "guard", "body": guard, "triggerType": "Post", "triggerOperation": "Create"})
        both = {"pre_trigger_include": "stamp", "post_trigger_include": "guard"}
        for name in "12":
            self.assertEqual(self.flat.create_item({"id": name, "pk": "triggers"}, **both)["by"], "Create")
        self.refused(400, lambda: self.flat.create_item({"id": "3", "pk": "triggers"}, **both))
        self.assertEqual(self.rows(self.flat, "SELECT VALUE c.id FROM c", partition_key="triggers"), ["1", "2"])
        first = {"pre_trigger_include": "stamp"}
        self.assertEqual(self.flat.upsert_item({"id": "1", "pk": "triggers"}, **first)["by"], "Upsert")
        self.assertEqual(self.flat.replace_item("1", {"id": "1", "pk": "triggers"}, **first)["by"], "Replace")
        self.flat.delete_item("1", "triggers", **first)
        self.assertEqual(scripts.get_trigger("guard")["triggerType"], "Post")
        scripts.replace_trigger("guard", {"id": "guard", "body": "function () {}", "triggerType": "Post", "triggerOperation": "Create"})
        self.flat.create_item({"id": "3", "pk": "triggers"}, **both)
        self.assertEqual(sorted(one["id"] for one in scripts.list_triggers()), ["guard", "stamp"])
        self.assertEqual(len(list(scripts.query_triggers("SELECT * FROM t WHERE t.triggerType = 'Pre'"))), 1)
        scripts.delete_trigger("guard")
        self.refused(404, lambda: scripts.get_trigger("guard"))

    def test_functions_in_queries(self):
        scripts = self.flat.scripts
        scripts.create_user_defined_function({"id": "tax", "body": "function (income) { return income < 1000 ? income * 0.1 : income * 0.25; }"})
        for income in [500, 1000, 2000]:
            self.flat.create_item({"id": f"i{income}", "pk": "functions", "income": income})
        key = {"partition_key": "functions"}
        self.assertEqual(self.rows(self.flat, "SELECT VALUE udf.tax(c.income) FROM c", **key), [50, 250, 500])
        self.assertEqual(sorted(self.rows(self.flat, "SELECT VALUE c.id FROM c WHERE udf.tax(c.income) > 100")), ["i1000", "i2000"])
        self.refused(400, lambda: self.rows(self.flat, "SELECT VALUE udf.missing(c.income) FROM c", **key))
        scripts.replace_user_defined_function("tax", {"id": "tax", "body": "function () { return 0; }"})
        self.assertEqual(self.rows(self.flat, "SELECT DISTINCT VALUE udf.tax(c.income) FROM c", **key), [0])
        self.assertIn("return 0", scripts.get_user_defined_function("tax")["body"])
        self.assertEqual([one["id"] for one in scripts.list_user_defined_functions()], ["tax"])
        self.assertEqual(len(list(scripts.query_user_defined_functions("SELECT * FROM u"))), 1)
        scripts.delete_user_defined_function("tax")
        self.refused(404, lambda: scripts.get_user_defined_function("tax"))
