// A web API with NestJS and @nestjs/azure-database.
import "reflect-metadata";
import assert from "node:assert/strict";
import { describe, test, before, after } from "node:test";
import { AzureCosmosDbModule, CosmosDateTime, CosmosPartitionKey, CosmosUniqueKey, InjectModel } from "@nestjs/azure-database";
import { Body, Controller, Delete, Get, Module, NotFoundException, Param, Post, Put, Query } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { endpoint, fresh, key } from "./server.mjs";

// TypeScript's decorators, without TypeScript.
const decorate = (target, name, ...decorators) => Reflect.decorate(decorators, target.prototype, name, Object.getOwnPropertyDescriptor(target.prototype, name));
const parameter = (target, name, index, decorator) => decorator(target.prototype, name, index);

class Event {}
Reflect.defineMetadata("design:type", String, Event.prototype, "code");
Reflect.defineMetadata("design:type", Date, Event.prototype, "at");
CosmosUniqueKey()(Event.prototype, "code");
CosmosDateTime()(Event.prototype, "at");
CosmosPartitionKey("type")(Event);

class EventsController {
  constructor(events) {
    this.events = events;
  }
  async create(event) {
    return (await this.events.items.create(event)).resource;
  }
  async find(type, id) {
    const { resource } = await this.events.item(id, type).read();
    if (!resource) throw new NotFoundException();
    return resource;
  }
  async replace(type, id, event) {
    return (await this.events.item(id, type).replace({ ...event, id, type })).resource;
  }
  async remove(type, id) {
    await this.events.item(id, type).delete();
  }
  async list(size, next) {
    const page = await this.events.items.query("SELECT c.id, c.at FROM c WHERE c.type = 'meetup' ORDER BY c.at", { maxItemCount: Number(size), continuationToken: next, partitionKey: "meetup" }).fetchNext();
    return { items: page.resources, next: page.continuationToken };
  }
}
decorate(EventsController, "create", Post());
parameter(EventsController, "create", 0, Body());
decorate(EventsController, "find", Get(":type/:id"));
decorate(EventsController, "replace", Put(":type/:id"));
decorate(EventsController, "remove", Delete(":type/:id"));
for (const method of ["find", "replace", "remove"]) {
  parameter(EventsController, method, 0, Param("type"));
  parameter(EventsController, method, 1, Param("id"));
}
parameter(EventsController, "replace", 2, Body());
decorate(EventsController, "list", Get());
parameter(EventsController, "list", 0, Query("size"));
parameter(EventsController, "list", 1, Query("next"));
InjectModel(Event)(EventsController, undefined, 0);
Controller("events")(EventsController);

describe("NestJS", async () => {
  let app, base;
  const ends = [];
  before(async () => {
    class App {}
    Module({
      imports: [AzureCosmosDbModule.forRoot({ dbName: await fresh({ after: (end) => ends.push(end) }), endpoint, key }), AzureCosmosDbModule.forFeature([{ dto: Event }])],
      controllers: [EventsController],
    })(App);
    app = await NestFactory.create(App, { logger: false });
    await app.listen(0, "127.0.0.1");
    base = `${await app.getUrl()}/events`;
  });
  after(async () => {
    await app?.close();
    await Promise.all(ends.map((end) => end()));
  });
  const call = async (method, path, body) => {
    const response = await fetch(base + path, { method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, body: text ? JSON.parse(text) : undefined };
  };

  test("items of a web API", async () => {
    const event = { id: "1", type: "meetup", code: "A", at: new Date(Date.UTC(2026, 0, 1)) };
    assert.equal((await call("POST", "", event)).status, 201);
    assert.equal((await call("GET", "/meetup/1")).body.at, "2026-01-01T00:00:00.000Z");
    assert.equal((await call("PUT", "/meetup/1", { ...event, title: "new" })).body.title, "new");
    assert.equal((await call("POST", "", { ...event, id: "2" })).status, 500); // the code is taken
    assert.equal((await call("GET", "/meetup/none")).status, 404);
    assert.equal((await call("DELETE", "/meetup/1")).status, 200);
    assert.equal((await call("GET", "/meetup/1")).status, 404);
  });

  test("pages of a web API, in order", async () => {
    for (let i = 0; i < 23; i++) await call("POST", "", { id: `p${i}`, type: "meetup", code: `p${i}`, at: new Date(Date.UTC(2026, 0, 1 + (i * 7) % 23)) });
    const dates = [];
    let next = "";
    do {
      const { body } = await call("GET", `?size=5${next ? `&next=${encodeURIComponent(next)}` : ""}`);
      assert.ok(body.items.length <= 5);
      dates.push(...body.items.map((item) => item.at));
      next = body.next;
    } while (next);
    assert.equal(dates.length, 23);
    assert.deepEqual(dates, dates.toSorted());
  });
});
