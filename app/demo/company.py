"""What the large demo's company keeps records of, two lines for each kind of record.

The first line has its name, other names for it, a description, and what it is asked for. The second
has its fields, then the records each of its rows belongs to, which must stand further up: ``site``
leads to a Site, ``head:Employee`` to an Employee under another name, and ``?`` may be missing;
then, if its rows have names of their own, these.
"""

COMPANY = """
Site (location, plant): Places where the company works. | where we are, in which city and country
    name city country opened_on = Harbour Works, North Plant, Tower Office, East Yard
Building (premises): Buildings on our sites. | which buildings stand on a site
    name address area storeys | site
Floor (storey): Floors of our buildings. | how large a floor is
    name level area | building
MeetingRoom (conference room): Rooms in which people meet. | where to meet, and for how many people
    name seats has_video | floor = Vermeer, Curie, Copernicus, Pessoa
RoomBooking (room reservation): Reservations of meeting rooms. | who meets where and when
    subject starts_on hours status(planned,held,cancelled) | meeting_room
CostCenter: Where costs are booked. | which budget a cost belongs to
    name code is_active = Management, Assembly, Sales, Warehouse
Department (division): Departments of the company. | who is responsible for what
    name code | cost_center site = Engineering, Production, Sales, Purchasing
Team (squad): Teams within departments. | which teams a department has
    name size | department

Position (job title): Positions that people hold. | what people do, and at which grade
    name grade = Engineer, Buyer, Welder, Accountant
Employee (staff, worker, colleague): People who work for us. | who works where and since when
    number name email hired_on | department position = @people
EmploymentContract: Terms on which people are employed. | hours, start and end of employment
    number starts_on ends_on hours kind(permanent,temporary) | employee
LeaveRequest (vacation, holiday): Requests for days off. | who is away, and which leave is approved
    starts_on days status(asked,approved,refused) | employee
SickLeave: Days on which people were ill. | absence because of illness
    starts_on days has_certificate | employee
TimeSheet (working hours): Hours that people worked in a week. | how long people worked
    week hours overtime status(open,submitted,approved) | employee
PerformanceReview (appraisal): Yearly talks about someone's work. | how people do, and their rating
    held_on rating remarks | employee
TrainingCourse (seminar): Courses that we offer to people. | what can be learned, and its price
    name days price = Welding Basics, First Aid, Spreadsheet Skills, Forklift Driving
TrainingEnrollment: Who takes part in which course. | participants and results of training
    enrolled_on is_passed | employee training_course
Certification (licence): Certificates that people hold. | who may do what, and until when
    name issued_on expires_on | employee = Welder EN 9606, Forklift Licence, First Aider
Skill (competence): Abilities that people have. | who can do what, and how well
    name level | employee = Welding, Spanish, CAD, Negotiation
JobOpening (vacancy): Positions that we want to fill. | whom we look for
    title opened_on status(open,filled,closed) | department position
Applicant (candidate): People who want to work for us. | who applied, and when
    name email applied_on | job_opening = Noor Haddad, Piotr Zielinski, Elin Berg
Interview: Talks with applicants. | how an application goes
    held_on rating remarks | applicant
SalaryBand: Ranges of pay for the grades. | how much a grade earns
    grade minimum maximum currency
ExpenseClaim (travel expenses): What people want to be paid back. | costs of trips, approval
    number amount spent_on status(submitted,approved,paid) | employee
BusinessTrip (travel): Journeys on business. | who travels where and when
    city starts_on days purpose | employee
Shift: Working times of a day. | when the early, late and night shifts start
    name starts_at hours = Early, Late, Night
ShiftAssignment (roster): Who works in which shift. | who is on duty
    worked_on | employee shift

Customer (client, buyer): Companies that buy from us. | who buys our products, and where they are
    number name city country = Atlas Cranes, Borealis Rail, Cygnus Marine, Dorado Farms
CustomerContact (contact person): People at our customers. | whom to call at a customer
    name email phone | customer = Lena Voss, Marc Dubois, Rita Alves
CustomerAddress: Addresses of our customers. | where to deliver and to bill
    address city country kind(billing,shipping) | customer
Lead (prospect): People who may become customers. | who is interested in our products
    name email source status(fresh,contacted,lost) = Hugo Brandt, Sofia Conti, Emil Novak
Opportunity (deal): Sales that we hope for. | expected sales, and how likely they are
    title amount probability closes_on stage(contact,offer,won,lost) | customer
SalesRegion (territory): Regions that we sell to. | who sells where
    name country = Benelux, Iberia, Nordics
SalesRepresentative (salesperson): People who sell our products. | who looks after customers
    quota commission | employee sales_region
PriceList: Prices that hold for a time. | what our products cost, and from when
    name currency valid_from = List Prices, Dealer Prices
Discount (rebate): Reductions of prices. | who gets how much off
    percent valid_from valid_until | customer
Quotation (quote, offer): Prices that we offered to customers. | what we offered, and until when
    number amount valid_until status(draft,sent,accepted,refused) | customer
SalesOrder (customer order): Orders of our customers. | what customers ordered, and its status
    number ordered_on amount status(open,shipped,cancelled) | customer sales_representative?
SalesContract: Agreements with customers. | terms and duration of sales
    number starts_on ends_on amount | customer
SalesForecast: What we expect to sell. | expected revenue of a month
    month amount | sales_region
Visit (call): Visits of our people at customers. | who was at which customer
    visited_on remarks | customer sales_representative
Complaint (claim): What customers complain about. | unhappy customers, and how it was settled
    number received_on subject status(open,settled,rejected) | customer
ServiceTicket (support case): Questions and problems of customers. | help that customers need
    number opened_on subject priority(low,normal,urgent) | customer
WarrantyCase (guarantee): Repairs under warranty. | what broke within its guarantee
    number received_on cost | customer
SurveyResponse (feedback): What customers think of us. | satisfaction of customers
    answered_on rating remarks | customer

Campaign: Actions to make our products known. | advertising, its budget and its dates
    name starts_on ends_on budget = Spring Fair, Green Crane, Rail Days
CampaignMail (newsletter): Mails that a campaign sends. | how many people opened a mailing
    subject sent_on recipients opened | campaign
TradeFair (exhibition): Fairs at which we show our products. | which exhibitions we go to
    name city starts_on cost = Hannover, Lyon Industrie, Gdansk Expo
WebPage (landing page): Pages of our web site. | how often a page is visited
    title address visitors | campaign

Supplier (vendor): Companies that deliver to us. | who delivers, from where, and how reliably
    number name city country rating = Neckar Steel, Torino Castings, Bilbao Tubes, Osaka Bolts
SupplierContact: People at our suppliers. | whom to call at a supplier
    name email phone | supplier = Jonas Weiss, Carla Riva, Ken Mori
SupplierContract (framework agreement): Agreements with suppliers. | terms of purchase
    number starts_on ends_on amount | supplier
SupplierAudit: Checks of our suppliers. | how suppliers fared in audits
    held_on score remarks | supplier
MaterialGroup: Groups of materials. | how materials are sorted
    name code = Metals, Plastics, Fasteners
Material (raw material): What our products are made of. | density and price of raw materials
    number name density price | material_group = Steel, Aluminum, Brass, Nylon
PurchaseRequisition: What people ask to be bought. | wishes for purchases, and their approval
    number quantity needed_on status(asked,approved,refused) | employee material
RequestForQuotation (tender): Requests for prices from suppliers. | whom we asked for an offer
    number sent_on due_on | supplier
PurchaseOrder (procurement): Orders to our suppliers. | what we ordered, from whom, and its status
    number ordered_on amount status(open,received,cancelled) | supplier
PurchaseOrderLine: Single items of purchase orders. | quantities and prices of what we ordered
    position quantity price | purchase_order material
GoodsReceipt (incoming goods): Deliveries that arrived. | what came in, and when
    number received_on quantity | purchase_order
SupplierInvoice (bill): Invoices from suppliers. | what we owe, and until when
    number amount due_on status(open,paid,disputed) | supplier purchase_order?
ReturnToSupplier: Goods that we sent back. | what was wrong with deliveries
    number sent_on quantity reason | supplier material

ProductFamily: Families of our products. | how our products are sorted
    name code = Cranes, Winches, Hoists
Product (item, article): What we make and sell. | our products, their weight and list price
    number name weight price | product_family = Harbour Crane, Deck Winch, Chain Hoist, Jib Crane
Part (component): Parts that products consist of. | parts, and what they are made of
    number name weight | material = Hook Block, Drum, Gear Case, Boom Section
PartsList (bill of materials): How many parts a product needs. | composition of products
    quantity | product part
Drawing (blueprint): Technical drawings of parts. | plans by which parts are made
    number version drawn_on | part
EngineeringChange (change request): Changes to parts. | what is changed, and why
    number subject reason status(asked,approved,done) | part
DesignProject (development): Projects that develop products. | what is being developed
    name starts_on ends_on budget = Electric Winch, Light Boom, Silent Hoist
Milestone: Steps of design projects. | when a project has to reach what
    name due_on is_done | design_project = Concept, Prototype, Release
Prototype: First samples of products. | what was built to try it out
    number built_on cost | design_project
TestReport: Results of trials. | how prototypes did in tests
    number tested_on is_passed remarks | prototype
Patent: Inventions that we protect. | what is protected, and until when
    number title filed_on expires_on

ProductionLine: Lines that make products. | which lines there are, and what they can do
    name capacity | site = Line North, Line South, Paint Line
WorkCenter (work station): Places at which work is done. | capacity of the stations of a line
    name capacity | production_line = Saw, Weld, Lathe, Paint
Machine (equipment): Machines in our plants. | age and state of the machines
    number name bought_on status(running,idle,broken) | work_center = Lathe 1, Press 2, Robot 3
Tool (jig, fixture): Tools for the machines. | which tools we have, and how worn they are
    number name wear | machine = Drill, Clamp, Die
WorkOrder (production order): Orders to make products. | what is made, how much, until when
    number quantity due_on status(planned,started,finished) | product production_line
WorkStep (operation): Steps of work orders. | what is done in which order, and how long it takes
    position minutes | work_order work_center
ProductionPlan (schedule): What is to be made in a week. | plans of the factory
    week quantity | product production_line
OutputReport (yield): What was made on a day. | good pieces and scrap
    worked_on good scrap | work_order
DowntimeEvent (standstill, outage): Times at which machines stood still. | how long and why
    started_on minutes reason | machine
Batch (lot): Pieces that were made together. | where a piece comes from
    number made_on quantity | work_order

Inspection (quality check): Checks of batches. | what was checked, and with which result
    number inspected_on is_passed | batch employee
InspectionPlan: What is checked, and how often. | rules of inspections
    title interval_days | product
Defect (fault, flaw): Faults that were found. | what is wrong with products, and how bad it is
    found_on subject severity(minor,major,critical) | inspection
NonConformity (deviation): Departures from what was agreed. | which deviations are open
    number found_on status(open,accepted,closed) | batch
CorrectiveAction (capa): What is done so that it does not happen again. | measures against faults
    subject due_on is_done | non_conformity employee
QualityAudit: Audits of our own work. | findings about departments
    held_on score remarks | department
AuditFinding: What audits found. | open findings, and how bad they are
    subject severity(minor,major,critical) is_done | quality_audit
MeasuringDevice (gauge): Instruments that measure. | which instruments we have
    number name accuracy | work_center = Caliper, Micrometer, Scale
Calibration: Checks of measuring devices. | when an instrument was calibrated
    held_on due_on is_passed | measuring_device

MaintenancePlan: How often machines are serviced. | rules of maintenance
    title interval_days | machine
MaintenanceOrder (repair): Repairs and services of machines. | what was repaired, and its cost
    number ordered_on cost status(open,started,finished) | machine
SparePart: Parts for repairs. | what we keep to repair machines
    number name price stock | machine = Belt, Bearing, Fuse, Seal

Warehouse (depot): Places where goods are kept. | where stock lies
    name city area | site = North Store, Harbour Depot, Cold Store
StorageZone: Zones of warehouses. | how a warehouse is divided
    name temperature | warehouse = Racks, Yard, Cage
StorageBin (shelf, rack): Places in a zone. | where exactly something lies
    code height | storage_zone
StockLevel (inventory): How much of a part lies where. | what is in stock
    quantity counted_on | part storage_bin
StockMovement (transfer): Parts that were moved. | what went in and out of stock
    moved_on quantity reason | part warehouse
PickList (picking): What is to be fetched from stock. | what has to be collected
    number picked_on is_done | sales_order warehouse
Package (parcel): Boxes that we pack. | weight and size of boxes
    number weight height | pick_list
PackagingMaterial (carton): What we pack with. | boxes, film and pallets
    name stock price = Pallet, Film, Crate
Carrier (forwarder, haulier): Companies that transport goods. | who drives for us
    name city phone = Maas Freight, Rhone Cargo, Baltic Lines
Shipment (consignment): Goods on the way to customers. | what was sent, when, and where it is
    number shipped_on weight status(packed,underway,delivered) | sales_order carrier
DeliveryRoute (tour): Ways that our trucks take. | length and stops of tours
    name kilometers stops | warehouse = Delta Tour, Coast Tour
Vehicle (truck, car, van): Our cars and trucks. | which vehicles we have, and how far they drove
    plate name kilometers bought_on | site = Actros, Kangoo, Transit
Driver: People who drive our trucks. | who drives which vehicle
    licence_number | employee vehicle
CustomsDeclaration (export, import): Papers for goods that cross borders. | duties and customs
    number declared_on amount | shipment
ReturnShipment (rma): Goods that customers sent back. | returns, and why
    number received_on reason | customer product

Currency: Money of other countries. | which currencies we use
    code name = Euro, Dollar, Zloty
ExchangeRate: Rates between currencies. | what a currency is worth on a day
    quoted_on rate | currency
Account (general ledger): Accounts of the books. | what is booked where
    number name kind(asset,liability,income,expense) = Bank, Payables, Revenue, Wages
JournalEntry (booking): Bookings in the ledger. | what was booked, when and how much
    number booked_on amount remarks | account cost_center
Invoice (customer invoice): Invoices to customers. | what customers owe, and what is overdue
    number invoiced_on amount due_on status(open,paid,overdue) | customer sales_order?
InvoiceLine: Single items of invoices. | what an invoice is made of
    position quantity price | invoice product
CreditNote: Money that we give back. | credits to customers
    number issued_on amount | invoice
Payment (receipt): Money that came in. | which invoices were paid, and when
    paid_on amount | invoice
DunningLetter (reminder): Reminders of unpaid invoices. | who was reminded to pay
    sent_on level | invoice
BankAccount: Our accounts at banks. | which banks we use
    name iban balance | currency = House Bank, Savings
BankTransaction (bank statement): Movements of bank accounts. | what went in and out of the bank
    booked_on amount remarks | bank_account
Budget: Money that departments may spend. | how much may be spent in a year
    year amount | cost_center
FixedAsset (capital asset): Things of value that we own. | value and depreciation of what we own
    number name bought_on value | cost_center = Hall 2, Crane Rig, Server Room
Depreciation (write-off): Loss in value of fixed assets. | how much an asset lost in a year
    year amount | fixed_asset
TaxReturn (vat): Tax that we declared. | which taxes are due
    quarter amount status(draft,filed,paid)
Loan (credit): Money that we borrowed. | debts and interest
    number amount rate ends_on | bank_account
InsurancePolicy: Insurances that we have. | what is insured, and for how much
    number company premium ends_on

Computer (laptop, desktop): Computers that people use. | who has which computer
    number name bought_on | employee = Latitude, Precision, Elite
MobilePhone (smartphone): Phones that people use. | who has which telephone
    phone name | employee = Fair 5, Pixel 9
Software (application): Programs that we use. | which programs we have
    name version company = Ledger One, Draft Pro, Mail Hub
SoftwareLicense: Rights to use programs. | how many people may use a program
    seats cost ends_on | software
UserAccount (login): Accounts of people in programs. | who may log in where
    login created_on is_active | employee software
Server (host): Computers in the server room. | which servers run, and where
    name memory status(running,stopped) | site = atlas, borea, cirro
BackupJob: Copies of data for safety. | whether backups succeeded
    ran_on gigabytes is_passed | server
Incident (disruption): Breakdowns of computers and programs. | what does not work in IT
    number opened_on subject priority(low,normal,urgent) | software
HelpdeskRequest (it support): Requests for help with computers. | what people need from IT
    number opened_on subject status(open,solved) | employee
NetworkDevice (router, switch): Devices of the network. | which routers and switches there are
    name address | site = core-1, edge-1, edge-2

CleaningContract: Firms that clean our buildings. | who cleans where
    company price ends_on | building
AccessBadge (key card): Cards that open doors. | who may enter
    number issued_on is_active | employee
Visitor (guest): People who visit us. | who was here, and whom they visited
    name company visited_on | employee = Iris Falk, Tom Reed, Yuki Sato
ParkingSpace (car park): Places to park cars. | who parks where
    code is_covered | site
CanteenMenu (lunch, meal): What there is to eat. | dishes of a day, and their price
    dish served_on price | site
WasteDisposal (recycling): Waste that was taken away. | how much waste we make
    collected_on weight kind(paper,metal,chemical) | site

SafetyIncident (accident, injury): Accidents at work. | who was hurt, where and how badly
    happened_on severity(minor,major,critical) remarks | department
SafetyTraining: Instructions on how to work safely. | who was instructed, and when
    held_on subject | department
HazardousSubstance (chemical): Substances that harm. | which chemicals we keep, and how much
    name stock unit | warehouse = Acetone, Paint Thinner, Acid
LegalCase (lawsuit): Disputes before courts. | who sues whom, and for how much
    number subject amount status(open,won,lost)
Policy (guideline): Rules that hold in the company. | what people may do
    title version published_on
Document (file): Papers that are filed. | where a paper is
    title version created_on | department
DataProtectionRequest (privacy, gdpr): People who ask for their data. | who wants data deleted
    number received_on status(open,answered)
"""
"""The table; ``@people`` gives rows the names of the company's people."""
